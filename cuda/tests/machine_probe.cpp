// SPDX-License-Identifier: Apache-2.0
// The bare console behind a few C functions, so that Python tests can compare it with ale-py and py65.
#include <cstring>
#include <vector>

#include "machine/console.h"

namespace {

struct Probe {
  std::vector<uint8_t> bytes;
  std::vector<seed::Instruction> program;
  seed::Rom rom;
  seed::Display display;
  seed::Inputs inputs;
  seed::Mt19937 system;
  seed::Console console;
  std::vector<uint8_t> pictures[2];

  seed::Screen screen() { return {{pictures[0].data(), pictures[1].data()}}; }
};

}  // namespace

extern "C" {

// Returns null when the size does not fit the type. `predecode`: 0 = reference interpreter.
Probe* probe_create(const uint8_t* bytes, uint32_t size_bytes, int type, int predecode) {
  Probe* probe = new Probe();
  probe->bytes.assign(bytes, bytes + size_bytes);
  if (!seed::rom_prepare(probe->rom, probe->bytes.data(), size_bytes, static_cast<seed::CartridgeType>(type))) {
    delete probe;
    return nullptr;
  }
  if (predecode) {
    probe->program.resize(seed::rom_program_length(probe->rom));
    seed::rom_predecode(probe->rom, probe->program.data());
  }
  seed::mt19937_seed(probe->system, seed::kSystemSeed);
  seed::console_power_on(probe->console, probe->rom, probe->system);
  return probe;
}

void probe_destroy(Probe* probe) { delete probe; }

void probe_set_display(Probe* probe, int pal, int ystart, int height, int hmove_blanks) {
  probe->display = {pal != 0, static_cast<uint16_t>(ystart), static_cast<uint16_t>(height), hmove_blanks != 0};
  for (auto& picture : probe->pictures) picture.resize(static_cast<size_t>(height) * seed::kScreenWidth);
}

void probe_reset(Probe* probe) {
  seed::console_reset(probe->console, probe->rom, probe->display, probe->screen(), probe->system);
}

void probe_set_inputs(Probe* probe, int swcha, int swchb, int trigger0, int trigger1, const int32_t* paddles) {
  probe->inputs.swcha = static_cast<uint8_t>(swcha);
  probe->inputs.swchb = static_cast<uint8_t>(swchb);
  probe->inputs.trigger_pressed[0] = trigger0 != 0;
  probe->inputs.trigger_pressed[1] = trigger1 != 0;
  for (int i = 0; i < 4; ++i) probe->inputs.paddle_resistance_ohms[i] = paddles[i];
}

// Runs `frames` frames; with `draw` 0 no pixels are drawn.
void probe_run(Probe* probe, int frames, int draw) {
  const seed::Screen screen = draw ? probe->screen() : seed::Screen{{nullptr, nullptr}};
  for (int i = 0; i < frames; ++i) {
    seed::console_run_frame(probe->console, probe->rom, probe->display, probe->inputs, screen);
  }
}

// Plays recorded inputs: one byte of SWCHA and one of the left trigger a frame.
void probe_play(Probe* probe, const uint8_t* swcha, const uint8_t* trigger, int frames, int draw) {
  const seed::Screen screen = draw ? probe->screen() : seed::Screen{{nullptr, nullptr}};
  for (int i = 0; i < frames; ++i) {
    probe->inputs.swcha = swcha[i];
    probe->inputs.trigger_pressed[0] = trigger[i] != 0;
    seed::console_run_frame(probe->console, probe->rom, probe->display, probe->inputs, screen);
  }
}

void probe_get(const Probe* probe, uint8_t* ram, uint8_t* cartridge_ram, uint8_t* picture, int32_t* numbers) {
  const seed::Console& console = probe->console;
  std::memcpy(ram, console.riot.ram, 128);
  std::memcpy(cartridge_ram, console.cartridge.ram, 128);
  const std::vector<uint8_t>& current = probe->pictures[console.current_buffer];
  if (picture != nullptr) std::memcpy(picture, current.data(), current.size());
  numbers[0] = console.num_lines;
  numbers[1] = console.rows_reached;
  numbers[2] = console.partial;
  numbers[3] = console.cycles;
  numbers[4] = console.cpu.PC;
}

// Executes one instruction with the RAM and the registers given (A, X, Y, SP, status, PC low, PC high), which receive
// what it leaves. Returns its cycles.
int probe_execute(Probe* probe, uint8_t* registers, uint8_t* ram) {
  seed::Console& console = probe->console;
  seed::Mos6502& cpu = console.cpu;
  cpu.A = registers[0];
  cpu.X = registers[1];
  cpu.Y = registers[2];
  cpu.SP = registers[3];
  seed::cpu_set_status(cpu, registers[4]);
  cpu.PC = static_cast<uint16_t>(registers[5] | registers[6] << 8);
  std::memcpy(console.riot.ram, ram, sizeof console.riot.ram);
  console.cycles = 0;
  seed::Bus bus{console, probe->rom, probe->display, probe->inputs, nullptr};
  seed::cpu_step(bus);
  const uint8_t after[] = {cpu.A,
                           cpu.X,
                           cpu.Y,
                           cpu.SP,
                           seed::cpu_status(cpu),
                           static_cast<uint8_t>(cpu.PC),
                           static_cast<uint8_t>(cpu.PC >> 8)};
  std::memcpy(registers, after, sizeof after);
  std::memcpy(ram, console.riot.ram, sizeof console.riot.ram);
  return console.cycles;
}

const void* probe_console(const Probe* probe, uint32_t* size_bytes) {
  *size_bytes = sizeof probe->console;
  return &probe->console;
}

}  // extern "C"

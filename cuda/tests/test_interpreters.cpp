// SPDX-License-Identifier: Apache-2.0
// The predecoded interpreter and the code of devices against the reference interpreter, and drawing against not
// drawing, on hostile cartridges: random programs that make frames, and random bytes.
//
//   test_interpreters [PROGRAMS FRAMES]     `make hostile` runs 100,000 frames of two cartridges of each type
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <vector>

#include "machine/console.h"
#include "random_cartridges.h"

// See device_console.cpp.
void run_device_frame(void* console, const void* rom, const void* display, const void* inputs, uint8_t* first,
                      uint8_t* second);

namespace {

using namespace seed;

struct Machine {
  Rom rom;
  std::vector<Instruction> program;
  Mt19937 system;
  Console console;
  std::vector<uint8_t> pictures[2];

  Screen screen() {
    Screen screen{};
    for (int i = 0; i < 2; ++i) screen.buffers[i] = pictures[i].empty() ? nullptr : pictures[i].data();
    return screen;
  }
};

void start(Machine& machine, const std::vector<uint8_t>& bytes, CartridgeType type, const Display& display,
           bool predecode, bool draw) {
  rom_prepare(machine.rom, bytes.data(), static_cast<uint32_t>(bytes.size()), type);
  if (predecode) {
    machine.program.resize(rom_program_length(machine.rom));
    rom_predecode(machine.rom, machine.program.data());
  }
  if (draw) {
    for (auto& picture : machine.pictures) picture.resize(static_cast<size_t>(display.height) * kScreenWidth);
  }
  std::memset(static_cast<void*>(&machine.console), 0, sizeof machine.console);
  mt19937_seed(machine.system, kSystemSeed);
  console_power_on(machine.console, machine.rom, machine.system);
  console_reset(machine.console, machine.rom, display, machine.screen(), machine.system);
}

bool same_machine(const Console& a, const Console& b) {
  return std::memcmp(a.riot.ram, b.riot.ram, sizeof a.riot.ram) == 0 &&
         std::memcmp(a.cartridge.ram, b.cartridge.ram, sizeof a.cartridge.ram) == 0 && a.cycles == b.cycles &&
         a.cpu.PC == b.cpu.PC && a.cpu.A == b.cpu.A && a.cpu.X == b.cpu.X && a.cpu.Y == b.cpu.Y &&
         a.cpu.SP == b.cpu.SP && cpu_status(a.cpu) == cpu_status(b.cpu) && a.tia.collisions == b.tia.collisions &&
         a.partial == b.partial && a.num_lines == b.num_lines &&
         std::memcmp(a.tia.position, b.tia.position, sizeof a.tia.position) == 0;
}

// Returns the first frame after which the machines differ, or -1.
int compare(const std::vector<uint8_t>& bytes, CartridgeType type, std::mt19937& random, int num_frames,
            int* num_whole_frames) {
  const Display display = {random() % 4 == 0, 34, 210, true};
  Machine reference, predecoded, blind, device;
  start(reference, bytes, type, display, false, true);
  start(predecoded, bytes, type, display, true, true);
  start(blind, bytes, type, display, true, false);
  start(device, bytes, type, display, false, true);
  for (int frame = 0; frame < num_frames; ++frame) {
    Inputs inputs;
    inputs.swcha = static_cast<uint8_t>(random());
    inputs.trigger_pressed[0] = random() & 1;
    // A CPU that has met KIL does nothing for the rest of its life: new RAM and the reset switch give it another.
    const bool dead = reference.console.cpu.frozen;
    const uint32_t ram_seed = random();
    for (Machine* machine : {&reference, &predecoded, &blind, &device}) {
      if (dead) {
        std::mt19937 ram(ram_seed);
        for (auto& byte : machine->console.riot.ram) byte = static_cast<uint8_t>(ram());
        console_reset(machine->console, machine->rom, display, machine->screen(), machine->system);
      }
      if (machine != &device) {
        console_run_frame(machine->console, machine->rom, display, inputs, machine->screen());
      } else {
        run_device_frame(&device.console, &device.rom, &display, &inputs, device.pictures[0].data(),
                         device.pictures[1].data());
      }
    }
    *num_whole_frames += !reference.console.partial;
    if (!same_machine(reference.console, predecoded.console) || !same_machine(reference.console, blind.console) ||
        !same_machine(reference.console, device.console) || reference.pictures[0] != predecoded.pictures[0] ||
        reference.pictures[1] != predecoded.pictures[1] || reference.pictures[0] != device.pictures[0] ||
        reference.pictures[1] != device.pictures[1]) {
      return frame;
    }
  }
  return -1;
}

}  // namespace

int main(int argc, char** argv) {
  constexpr int kRunsOutOfRom = 1234;  // what is on the bus then once differed
  const int num_programs = argc > 2 ? std::atoi(argv[1]) : 700, num_frames = argc > 2 ? std::atoi(argv[2]) : 12;
  int num_failures = 0, num_whole_frames = 0;
  for (int program = 0; program <= num_programs; ++program) {
    const int seed = program < num_programs ? program : kRunsOutOfRom;
    std::mt19937 random(static_cast<uint32_t>(seed));
    const CartridgeType type = static_cast<CartridgeType>(seed % kNumCartridgeTypes);
    const bool frames_wanted = seed / kNumCartridgeTypes % 8 != 1;
    const std::vector<uint8_t> bytes = frames_wanted ? random_program(random, type) : random_bytes(random, type);
    const int frame = compare(bytes, type, random, num_frames, &num_whole_frames);
    if (frame < 0) continue;
    std::fprintf(stderr, "seed %d (cartridge type %d): machines differ after frame %d\n", seed,
                 seed % kNumCartridgeTypes, frame);
    ++num_failures;
  }
  std::printf("%d programs x %d frames, %d whole frames, %d failures\n", num_programs, num_frames, num_whole_frames,
              num_failures);
  if (num_whole_frames < num_programs * (num_frames / 4)) {
    std::fprintf(stderr, "too few programs complete a frame: the comparison shows little\n");
    return 1;
  }
  return num_failures == 0 ? 0 : 1;
}

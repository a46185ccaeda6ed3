// SPDX-License-Identifier: Apache-2.0
// Pictures drawn when somebody looks against pictures drawn at every frame, on programs whose frames are whole or end
// early as it comes, which those of no game do.
#include <cstdio>
#include <cstring>
#include <random>
#include <vector>

#include "machine/console.h"
#include "pool/machine_pictures.h"
#include "random_cartridges.h"

namespace {

using namespace seed;

constexpr int kNumPrograms = 300, kNumFrames = 150;
constexpr Display kDisplay = {false, 34, 210, true};

// Draws stripes that move; about a quarter of the frames, in no regular order, end after 64 to 127 lines.
std::vector<uint8_t> stripes(std::mt19937& random) {
  const uint8_t seed = static_cast<uint8_t>(random());
  const std::vector<uint8_t> code = {
      0x78, 0xd8, 0xa9, seed, 0x85, 0x81,                          // SEI CLD LDA #seed STA $81
      0xa9, 0x02, 0x85, 0x00, 0x85, 0x02, 0x85, 0x02, 0x85, 0x02,  // frame: LDA #2 STA VSYNC, three times STA WSYNC
      0xa9, 0x00, 0x85, 0x00, 0x85, 0x01, 0xe6, 0x80,              // LDA #0 STA VSYNC STA VBLANK INC $80
      0xa5, 0x81, 0x0a, 0x0a, 0x18, 0x65, 0x81, 0x69, 0x01,        // LDA $81 ASL ASL CLC ADC $81 ADC #1 ...
      0x85, 0x81, 0xa2, 0xfa, 0xc9, 0x40, 0xb0, 0x03,              // ... STA $81 LDX #250 CMP #$40 BCS lines
      0x09, 0x40, 0xaa,                                            // ORA #$40 TAX
      0x8a, 0x65, 0x80, 0x85, 0x09, 0x85, 0x02, 0xca, 0xd0, 0xf6,  // lines: TXA ADC $80 STA COLUBK STA WSYNC DEX BNE
      0x4c, 0x06, 0xf0,                                            // JMP frame
  };
  std::vector<uint8_t> bytes(4096, 0xea);
  std::memcpy(bytes.data(), code.data(), code.size());
  bytes[4092] = bytes[4094] = 0x00;
  bytes[4093] = bytes[4095] = 0xf0;
  return bytes;
}

struct Machine {
  Rom rom;
  Mt19937 system;
  Console console;
};

void start(Machine& machine, const std::vector<uint8_t>& bytes, CartridgeType type, std::vector<uint8_t>& pixels) {
  rom_prepare(machine.rom, bytes.data(), static_cast<uint32_t>(bytes.size()), type);
  std::memset(static_cast<void*>(&machine.console), 0, sizeof machine.console);
  mt19937_seed(machine.system, kSystemSeed);
  console_power_on(machine.console, machine.rom, machine.system);
  const Screen screen{{pixels.data(), pixels.data() + pixels.size() / 2}};
  console_reset(machine.console, machine.rom, kDisplay, screen, machine.system);
}

// Returns the first frame whose pictures differ, or -1.
int compare(const std::vector<uint8_t>& bytes, CartridgeType type, std::mt19937& random, int* num_short_after_whole) {
  const size_t picture_bytes = size_t{kDisplay.height} * kScreenWidth;
  std::vector<uint8_t> pixels(2 * picture_bytes);
  Machine drawn, tested;
  start(drawn, bytes, type, pixels);
  MachinePictures pictures(kDisplay);
  start(tested, bytes, type, pictures.pixels());
  pictures.replaced();
  const unsigned frames_between_looks = 1u << random() % 5;
  bool was_whole = false;
  for (int frame = 0; frame < kNumFrames; ++frame) {
    Inputs inputs;
    inputs.swcha = static_cast<uint8_t>(random());
    inputs.trigger_pressed[0] = random() & 1;
    console_run_frame(drawn.console, drawn.rom, kDisplay, inputs, {{pixels.data(), pixels.data() + picture_bytes}});
    pictures.run_frame(tested.console, tested.rom, [&](const Screen& screen) {
      console_run_frame(tested.console, tested.rom, kDisplay, inputs, screen);
    });
    const bool whole = drawn.console.num_lines >= kDisplay.ystart + kDisplay.height;
    *num_short_after_whole += was_whole && !whole;
    was_whole = whole;
    if (random() % frames_between_looks != 0) continue;
    const uint8_t* const wanted = pixels.data() + (drawn.console.current_buffer & 1 ? picture_bytes : 0);
    if (std::memcmp(pictures.look(tested.console, tested.rom), wanted, picture_bytes) != 0) return frame;
  }
  return -1;
}

}  // namespace

int main() {
  int num_failures = 0, num_short_after_whole = 0;
  for (int seed = 0; seed < kNumPrograms; ++seed) {
    std::mt19937 random(static_cast<uint32_t>(seed));
    const bool striped = seed % 2 == 0;
    const CartridgeType type = striped ? CartridgeType::k4K : static_cast<CartridgeType>(seed % kNumCartridgeTypes);
    const std::vector<uint8_t> bytes = striped ? stripes(random) : random_program(random, type);
    const int frame = compare(bytes, type, random, &num_short_after_whole);
    if (frame < 0) continue;
    std::fprintf(stderr, "seed %d: pictures differ in frame %d\n", seed, frame);
    ++num_failures;
  }
  std::printf("%d programs x %d frames, %d ended early after a whole one, %d failures\n", kNumPrograms, kNumFrames,
              num_short_after_whole, num_failures);
  if (num_short_after_whole < kNumPrograms) {
    std::fprintf(stderr, "too few frames end early after whole ones: the comparison shows little\n");
    return 1;
  }
  return num_failures == 0 ? 0 : 1;
}

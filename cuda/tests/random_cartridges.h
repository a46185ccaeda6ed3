// SPDX-License-Identifier: Apache-2.0
// Cartridges that nobody has written: random programs that make frames, and random bytes.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <random>
#include <vector>

#include "machine/cartridge.h"

namespace seed {

// A program that is likely to do something: a frame loop around random instructions, in every bank.
inline std::vector<uint8_t> random_program(std::mt19937& random, CartridgeType type) {
  constexpr uint32_t kSizes[kNumCartridgeTypes] = {2048, 4096, 8192, 8192, 16384, 16384, 8192, 8192, 10495};
  std::vector<uint8_t> bytes(kSizes[static_cast<int>(type)]);
  for (auto& byte : bytes) byte = static_cast<uint8_t>(random());
  const auto pick = [&](std::initializer_list<int> values) {
    return static_cast<uint8_t>(values.begin()[random() % values.size()]);
  };
  const uint32_t bank_bytes = type == CartridgeType::k2K ? 2048 : type == CartridgeType::kE0 ? 1024 : 4096;
  for (uint32_t bank = 0; bank + bank_bytes <= bytes.size(); bank += bank_bytes) {
    uint32_t at = type == CartridgeType::kF8SC || type == CartridgeType::kF6SC ? 0x100 : 0;
    const uint32_t start = at;
    const auto emit = [&](std::initializer_list<int> code) {
      for (int byte : code) bytes[bank + at++] = static_cast<uint8_t>(byte);
    };
    // VSYNC pulse of four lines
    emit({0x78, 0xd8, 0xa9, 2, 0x85, 0, 0x85, 2, 0x85, 2, 0x85, 2, 0x85, 2, 0xa9, 0, 0x85, 0, 0x85, 1});
    const uint32_t room = bank_bytes - 64;
    while (at < room) {
      const int kind = static_cast<int>(random() % 100), byte = static_cast<int>(random() & 0xff);
      const int ram = 0x80 + static_cast<int>(random() % 128);
      if (kind < 8)
        emit({0x85, 0x02});
      else if (kind < 30)
        emit({0xa9, byte, pick({0x85, 0x86, 0x84}), static_cast<int>(1 + random() % 0x2c)});
      else if (kind < 38)
        emit({pick({0xa5, 0xa6, 0xa4, 0x24, 0x25, 0x05, 0x65, 0xe5, 0xc5}), pick({0, 1, 2, 3, 4, 5, 6, 7, 12, ram})});
      else if (kind < 46)
        emit({pick({0x85, 0x86, 0x84, 0xe6, 0xc6, 0x06, 0x46, 0x26, 0x66}), ram});
      else if (kind < 50)
        emit({pick({0x95, 0x94, 0xb5, 0xf6, 0xd6, 0xb4, 0x35, 0x16}), byte});
      else if (kind < 54)
        emit({pick({0xbd, 0xb9, 0x9d, 0x99, 0xdd, 0x7d, 0xfd, 0xbc, 0xbe}), byte,
              pick({0xf0, 0xf3, 0xff, 0x00, 0x02, 0x10})});
      else if (kind < 57)
        emit({pick({0xb1, 0x91, 0xa1, 0x81, 0x11, 0xd1}), ram});
      else if (kind < 60)
        emit({pick({0xad, 0x8d, 0x2c}), pick({0x80, 0x82, 0x84, 0x85, 0x94, 0x95, 0x96, 0x97}), 0x02});
      else if (kind < 62)
        emit({0xad, byte, pick({0xf0, 0xf5, 0xff, 0x1f, 0x00})});
      else if (kind < 63)
        emit({0xa9, pick({1, 3, 9, 20}), 0x8d, 0x96, 0x02, 0xad, 0x84, 0x02, 0xd0, 0xfb});
      else if (kind < 65)
        emit({pick({0xa2, 0xa0}), static_cast<int>(random() % 20), pick({0xca, 0x88}), 0xd0, 0xfd});
      else if (kind < 70)
        emit({pick({0x10, 0x30, 0x50, 0x70, 0x90, 0xb0, 0xd0, 0xf0}), pick({0, 1, 2, 3, 0x10}), 0xea, 0xea, 0xea});
      else if (kind < 74)
        emit({pick({0x48, 0x68, 0x08, 0x28})});
      else if (kind < 75)
        emit({pick({0x20, 0x4c}), static_cast<int>((at + 3) & 0xff), static_cast<int>(0xf0 | (at + 3) >> 8)});
      else if (kind < 77)
        emit({pick({0x9a, 0xba, 0xf8, 0xd8})});
      else if (kind < 85)
        emit({pick({0x69, 0xe9, 0x49, 0x29, 0x09, 0xc9, 0xa9, 0xa2, 0xa0, 0xe0, 0xc0}), byte});
      else if (kind < 98)
        emit({pick({0xe8, 0xc8, 0xca, 0x88, 0xaa, 0xa8, 0x8a, 0x98, 0x18, 0x38, 0xea, 0x0a, 0x4a, 0x2a, 0x6a, 0xb8})});
      else if (kind < 99)
        emit({byte});
      else
        emit({0x60});
    }
    emit({0xa2, static_cast<int>(random() % 200), 0x85, 0x02, 0xca, 0xd0, 0xfb});
    emit({0x4c, static_cast<int>(start & 0xff), static_cast<int>(0xf0 | start >> 8)});
    for (uint32_t vector = bank_bytes - 6; vector < bank_bytes; vector += 2) {
      bytes[bank + vector] = static_cast<uint8_t>(start);
      bytes[bank + vector + 1] = static_cast<uint8_t>(0xf0 | start >> 8);
    }
  }
  return bytes;
}

inline std::vector<uint8_t> random_bytes(std::mt19937& random, CartridgeType type) {
  std::vector<uint8_t> bytes = random_program(random, type);
  for (auto& byte : bytes) byte = static_cast<uint8_t>(random());
  return bytes;
}

}  // namespace seed

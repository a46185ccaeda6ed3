// SPDX-License-Identifier: Apache-2.0
// Native code made from a cartridge, as the console sees it.
#pragma once

#include <cstdint>

namespace seed {

struct Bus;

// Raised when translated.h and the console's code no longer fit libraries built before.
constexpr int32_t kTranslationVersion = 3;

// What a library of translated code exports: `const Translation* seed_translation(void)`.
struct Translation {
  int32_t version;
  uint32_t console_bytes;  // sizeof(Console) it was built with
  // Runs the CPU until the frame ends. Returns false when the frame lasts so long that the instruction limit may count,
  // or the CPU froze: the caller then takes the frame back and interprets it.
  bool (*run)(Bus& bus);
};

}  // namespace seed

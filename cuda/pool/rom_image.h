// SPDX-License-Identifier: Apache-2.0
// The ROM image that a machine or a pool is made with.
#pragma once

#include <cstdint>
#include <vector>

#include "checks.h"
#include "games/tables.h"
#include "machine/cartridge.h"

namespace seed {

inline seed_status check_rom_size(int32_t game, int64_t size) {
  if (size == kGames[game].rom_size) return SEED_OK;
  return fail(SEED_INVALID_ARGUMENT, "the ROM image has %lld bytes, that of %s has %d", static_cast<long long>(size),
              kGameNames[game], kGames[game].rom_size);
}

// Makes `rom`, which points into `bytes`.
inline seed_status prepare_rom(int32_t game, const std::vector<uint8_t>& bytes, Rom& rom) {
  const auto type = static_cast<CartridgeType>(kGames[game].cartridge);
  if (rom_prepare(rom, bytes.data(), static_cast<uint32_t>(bytes.size()), type)) return SEED_OK;
  return fail(SEED_INVALID_ARGUMENT, "the ROM image of %s was not accepted", kGameNames[game]);
}

}  // namespace seed

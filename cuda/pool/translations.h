// SPDX-License-Identifier: Apache-2.0
// The native code that is loaded, by game.
#pragma once

#include <cstdint>

#include "translator/translation.h"

namespace seed {

// The translation that new machines of `game` use, or null: interpret. `game` is a valid index.
const Translation* translation_of(int32_t game);

}  // namespace seed

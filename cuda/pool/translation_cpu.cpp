// SPDX-License-Identifier: Apache-2.0
// Loads libraries of translated cartridges (dlopen) and keeps them for the process's lifetime.
#include <dlfcn.h>

#include <atomic>

#include "error.h"
#include "games/tables.h"
#include "machine/console.h"
#include "pool/translations.h"
#include "seed/translation.h"

namespace seed {
namespace {
std::atomic<const Translation*> translations[kNumGames];
}  // namespace

const Translation* translation_of(int32_t game) { return translations[game].load(std::memory_order_acquire); }

}  // namespace seed

using namespace seed;

extern "C" {

seed_status seed_translation_load(int32_t game, const char* path) {
  if (game < 0 || game >= kNumGames) return fail(SEED_NOT_FOUND, "game index %d is outside 0..%d", game, kNumGames - 1);
  if (path == nullptr) {
    translations[game].store(nullptr, std::memory_order_release);
    return SEED_OK;
  }
  // Never closed: machines that were created with it may run on.
  void* const library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return fail(SEED_INVALID_ARGUMENT, "the translation cannot be loaded: %s", dlerror());
  using Describe = const Translation* (*)();
  const auto describe = reinterpret_cast<Describe>(dlsym(library, "seed_translation"));
  if (describe == nullptr) return fail(SEED_INVALID_ARGUMENT, "%s is no translation of a cartridge", path);
  const Translation* const translation = describe();
  if (translation->version != kTranslationVersion || translation->console_bytes != sizeof(Console)) {
    return fail(SEED_INVALID_ARGUMENT, "%s was made for another version of this library: build it again", path);
  }
  translations[game].store(translation, std::memory_order_release);
  return SEED_OK;
}

seed_status seed_translation_is_loaded(int32_t game, int32_t* is_loaded) {
  if (game < 0 || game >= kNumGames) return fail(SEED_NOT_FOUND, "game index %d is outside 0..%d", game, kNumGames - 1);
  if (is_loaded == nullptr) return fail(SEED_INVALID_ARGUMENT, "is_loaded must not be NULL");
  *is_loaded = translation_of(game) != nullptr;
  return SEED_OK;
}
}

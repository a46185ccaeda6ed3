// SPDX-License-Identifier: Apache-2.0
// The pool of environments behind seed/pool.h on the CPU: lanes, their stacks of pictures, and the threads that step
// them.
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <map>
#include <memory>
#include <new>
#include <system_error>
#include <utility>
#include <vector>

#include "envs/atari_lane.h"
#include "error.h"
#include "games/tables.h"
#include "machine/program.h"
#include "pool/lane_pictures.h"
#include "pool/lane_snapshot.h"
#include "pool/pool_options.h"
#include "pool/translations.h"
#include "pool/workers.h"
#include "seed/pool.h"

namespace seed {
namespace {

enum class TaskKind : uint8_t { kStep, kReset, kReport };

// One environment: its state, its stack of pictures, the task it has now and the task's result.
struct PoolLane {
  Lane lane;
  LanePictures pictures;

  // The stack: a ring of pictures. Those that an episode has not filled yet count as black.
  std::unique_ptr<uint8_t[]> planes;
  int32_t newest = 0;
  int32_t num_planes = 0;

  TaskKind task = TaskKind::kReport;
  int32_t action = 0;  // 0..17
  float strength = 1.0f;
  int32_t seed = SEED_NO_SEED;
  int32_t env_id = 0;
  int32_t row = -1;  // of the outputs to write at once; -1: recv collects

  int32_t reward = 0;
  bool terminated = false, truncated = false;
  bool reports_end = false;  // terminated or truncated in this step
  bool out_of_memory = false;
  std::unique_ptr<uint8_t[]> final_stack;  // SAME_STEP and no outputs to write to
};

// A lane right after loading and the console's reset, when neither made random draws: the same for every seed.
struct Start {
  Lane lane;
  PictureStarts pictures;
  bool reusable;
};

// The lanes' threads each have a Painter; the last one belongs to the caller.
struct Pool {
  int32_t game_index;
  seed_pool_options options;
  std::vector<uint8_t> rom_bytes;
  std::vector<Instruction> program;
  AtariGame game;
  LaneOptions lane_options;
  std::vector<uint8_t> action_numbers;  // of the discrete actions
  std::unique_ptr<PictureFormat> format;
  std::vector<std::unique_ptr<Painter>> painters;
  std::vector<PoolLane> lanes;
  std::vector<int32_t> modes, difficulties;
  std::map<std::pair<int32_t, int32_t>, Start> starts;  // by mode and difficulty
  std::vector<int32_t> batch;                           // the lanes that the last recv returned
  const seed_pool_outputs* direct = nullptr;            // where a running step writes
  bool has_reset = false;
  pid_t process;
  std::unique_ptr<Workers> workers;  // last: its threads use everything above

  int32_t num_envs() const { return options.num_envs; }
  size_t stack_bytes() const { return format->shown_bytes() * size_t(options.stack_num); }

  void run_task(int thread, int lane_index);
  void step_lane(PoolLane& pooled, Painter& painter);
  void reset_lane(PoolLane& pooled, int lane_index, Painter& painter);
  void reset_seeded(PoolLane& pooled, int lane_index, Painter& painter);
  void push_picture(PoolLane& pooled, Painter& painter, Shown shown, bool after_reset);
  void keep_final_stack(PoolLane& pooled);
  void copy_stack(const PoolLane& pooled, uint8_t* out) const;
  void write_row(const PoolLane& pooled, int lane_index, const seed_pool_outputs& outputs, int32_t row) const;
  void apply_mode(Lane& lane, int lane_index) const;
  Start make_start(int lane_index, Painter& painter) const;
  void prepare_starts(const uint8_t* mask, const int32_t* seeds);
  seed_status check_lanes() const;
  seed_status post_steps(const int64_t* actions, const float* strengths, bool write_rows);
  seed_status collect(const seed_pool_outputs& outputs, bool rows_are_written);
};

// ---- One lane ----------------------------------------------------------------------------------------------------

void Pool::push_picture(PoolLane& pooled, Painter& painter, Shown shown, bool after_reset) {
  const size_t bytes = format->shown_bytes();
  const int32_t next = pooled.newest + 1 == options.stack_num ? 0 : pooled.newest + 1;
  uint8_t* const target = &pooled.planes[size_t(next) * bytes];
  if (!painter.paint(pooled.lane.atari.console, pooled.pictures, shown, after_reset, target)) {
    std::memmove(target, &pooled.planes[size_t(pooled.newest) * bytes], bytes);
  }
  pooled.newest = next;
  pooled.num_planes = std::min(pooled.num_planes + 1, options.stack_num);
}

// Oldest picture first.
void Pool::copy_stack(const PoolLane& pooled, uint8_t* out) const {
  const size_t bytes = format->shown_bytes();
  const int32_t num_black = options.stack_num - pooled.num_planes;
  std::memset(out, 0, size_t(num_black) * bytes);
  out += size_t(num_black) * bytes;
  for (int32_t age = pooled.num_planes - 1; age >= 0; --age, out += bytes) {
    const int32_t index = (pooled.newest - age + options.stack_num) % options.stack_num;
    std::memcpy(out, &pooled.planes[size_t(index) * bytes], bytes);
  }
}

void Pool::apply_mode(Lane& lane, int lane_index) const {
  lane.atari.mode = modes[size_t(lane_index)];
  lane.atari.difficulty = uint8_t(difficulties[size_t(lane_index)]);
}

void Pool::reset_lane(PoolLane& pooled, int lane_index, Painter& painter) {
  pooled.num_planes = 0;
  if (pooled.seed != SEED_NO_SEED) {
    reset_seeded(pooled, lane_index, painter);
  } else {
    painter.reset(pooled.lane, pooled.pictures, [&](Screen screen) {
      apply_mode(pooled.lane, lane_index);
      lane_reset(pooled.lane, game, lane_options, screen);
    });
  }
  push_picture(pooled, painter, Shown::kLastFrame, true);
}

void Pool::reset_seeded(PoolLane& pooled, int lane_index, Painter& painter) {
  const uint32_t seed = uint32_t(pooled.seed), env_id = uint32_t(pooled.env_id);
  const Start& start = starts.at({modes[size_t(lane_index)], difficulties[size_t(lane_index)]});
  if (start.reusable && !format->keep_pictures) {
    pooled.lane = start.lane;
    pooled.pictures.starts = start.pictures;
    pooled.pictures.stored.reset();
    lane_seed(pooled.lane, seed, env_id);
    FrameStart* const frames = pooled.pictures.starts.frames;
    lane_start_episode(pooled.lane, game, lane_options, Screen{{nullptr, nullptr}, {&frames[0], &frames[1]}});
    if (pooled.pictures.are_whole()) return;
  }
  painter.reset(pooled.lane, pooled.pictures, [&](Screen screen) {
    atari_load(pooled.lane.atari, game, lane_options.atari, seed, env_id, 0, Screen{{nullptr, nullptr}});
    mt19937_seed(pooled.lane.noop_generator, seed);
    apply_mode(pooled.lane, lane_index);
    lane_reset(pooled.lane, game, lane_options, screen);
  });
}

Start Pool::make_start(int lane_index, Painter& painter) const {
  Start start{};
  LanePictures pictures{};
  atari_load(start.lane.atari, game, lane_options.atari, 0, 0, 0, Screen{{nullptr, nullptr}});
  bool no_draws = start.lane.atari.num_draws == 0;
  apply_mode(start.lane, lane_index);
  painter.reset(start.lane, pictures,
                [&](Screen screen) { atari_reset(start.lane.atari, game, lane_options.atari, screen); });
  no_draws = no_draws && start.lane.atari.num_draws == 0 && start.lane.atari.environment.next == Mt19937::kWords;
  start.pictures = pictures.starts;
  start.reusable = no_draws && pictures.stored == nullptr && start.lane.atari.error == AtariError::kNone;
  return start;
}

void Pool::prepare_starts(const uint8_t* mask, const int32_t* seeds) {
  for (int32_t i = 0; i < num_envs(); ++i) {
    const std::pair<int32_t, int32_t> key{modes[size_t(i)], difficulties[size_t(i)]};
    const bool seeded = (mask == nullptr || mask[i] != 0) && seeds != nullptr && seeds[i] != SEED_NO_SEED;
    if (seeded && starts.count(key) == 0) starts.emplace(key, make_start(i, *painters.back()));
  }
}

void Pool::step_lane(PoolLane& pooled, Painter& painter) {
  painter.begin_step(pooled.pictures);
  const LaneStep step = lane_step(pooled.lane, game, lane_options, pooled.action, pooled.strength, painter);
  push_picture(pooled, painter, step.shown, false);
  pooled.reward = step.reward;
  pooled.terminated = step.terminated;
  pooled.truncated = step.truncated;
}

// ---- Tasks -------------------------------------------------------------------------------------------------------

void Pool::run_task(int thread, int lane_index) {
  PoolLane& pooled = lanes[size_t(lane_index)];
  Painter& painter = *painters[size_t(thread)];
  try {
    pooled.reports_end = false;
    if (pooled.task == TaskKind::kReset || (pooled.task == TaskKind::kStep && pooled.lane.ended)) {
      pooled.reward = 0;
      pooled.terminated = pooled.truncated = false;
      reset_lane(pooled, lane_index, painter);
    } else if (pooled.task == TaskKind::kStep) {
      step_lane(pooled, painter);
      pooled.reports_end = pooled.terminated || pooled.truncated;
      if (options.autoreset == SEED_AUTORESET_SAME_STEP) {
        if (pooled.reports_end) keep_final_stack(pooled);
        if (pooled.lane.ended) reset_lane(pooled, lane_index, painter);
      }
    }
    if (pooled.row >= 0) write_row(pooled, lane_index, *direct, pooled.row);
  } catch (const std::bad_alloc&) {
    pooled.out_of_memory = true;
  }
}

// Copies the stack to where final observations go: the outputs, or the lane until recv collects it.
void Pool::keep_final_stack(PoolLane& pooled) {
  if (pooled.row < 0) {
    if (pooled.final_stack == nullptr) pooled.final_stack.reset(new uint8_t[stack_bytes()]);
    copy_stack(pooled, pooled.final_stack.get());
  } else if (direct->final_observations != nullptr) {
    copy_stack(pooled, direct->final_observations + size_t(pooled.row) * stack_bytes());
  }
}

void Pool::write_row(const PoolLane& pooled, int lane_index, const seed_pool_outputs& outputs, int32_t row) const {
  if (outputs.observations != nullptr) copy_stack(pooled, outputs.observations + size_t(row) * stack_bytes());
  if (outputs.rewards != nullptr) outputs.rewards[row] = pooled.reward;
  if (outputs.terminations != nullptr) outputs.terminations[row] = pooled.terminated;
  if (outputs.truncations != nullptr) outputs.truncations[row] = pooled.truncated;
  if (outputs.env_ids != nullptr) outputs.env_ids[row] = lane_index;
  if (outputs.lives != nullptr) outputs.lives[row] = pooled.lane.lives;
  if (outputs.frame_numbers != nullptr) outputs.frame_numbers[row] = pooled.lane.atari.frame_number;
  if (outputs.episode_frame_numbers != nullptr)
    outputs.episode_frame_numbers[row] = pooled.lane.atari.episode_frame_number;
}

seed_status Pool::check_lanes() const {
  for (int32_t i = 0; i < num_envs(); ++i) {
    const PoolLane& pooled = lanes[size_t(i)];
    if (pooled.out_of_memory) return fail(SEED_OUT_OF_MEMORY, "not enough memory for the pictures of lane %d", i);
    if (pooled.lane.atari.error == AtariError::kModeNotReached)
      return fail(SEED_BAD_STATE, "lane %d: the cartridge did not reach mode %d of %s", i, pooled.lane.atari.mode,
                  kGameNames[game_index]);
  }
  return SEED_OK;
}

// Waits for the next batch and writes its results.
seed_status Pool::collect(const seed_pool_outputs& outputs, bool rows_are_written) {
  const int32_t count = options.batch_size;
  batch.resize(size_t(count));
  for (int32_t row = 0; row < count; ++row) batch[size_t(row)] = workers->task_at(row);
  workers->wait(count);
  int32_t num_ended = 0;
  for (int32_t row = 0; row < count; ++row) {
    const int32_t lane_index = batch[size_t(row)];
    const PoolLane& pooled = lanes[size_t(lane_index)];
    num_ended += pooled.reports_end;
    if (rows_are_written) continue;
    write_row(pooled, lane_index, outputs, row);
    if (pooled.reports_end && outputs.final_observations != nullptr && pooled.final_stack != nullptr)
      std::memcpy(outputs.final_observations + size_t(row) * stack_bytes(), pooled.final_stack.get(), stack_bytes());
  }
  if (outputs.num_ended != nullptr) *outputs.num_ended = num_ended;
  return check_lanes();
}

// Posts one step for each lane of the last batch.
seed_status Pool::post_steps(const int64_t* actions, const float* strengths, bool write_rows) {
  const int32_t num_actions = strengths != nullptr ? int32_t{kNumActions} : int32_t(action_numbers.size());
  for (size_t row = 0; row < batch.size(); ++row) {
    const PoolLane& pooled = lanes[size_t(batch[row])];
    if (actions[row] < 0 || actions[row] >= num_actions)
      return fail(SEED_INVALID_ARGUMENT, "the action of row %d is %lld, it must be 0 to %d", int(row),
                  static_cast<long long>(actions[row]), num_actions - 1);
    if (strengths != nullptr && !std::isfinite(strengths[row]))
      return fail(SEED_INVALID_ARGUMENT, "the action of row %d is not finite", int(row));
    if (options.autoreset == SEED_AUTORESET_DISABLED && pooled.lane.ended)
      return fail(SEED_BAD_STATE, "the episode of lane %d has ended: reset the lane before you step it", batch[row]);
  }
  for (size_t row = 0; row < batch.size(); ++row) {
    PoolLane& pooled = lanes[size_t(batch[row])];
    pooled.task = TaskKind::kStep;
    pooled.action = strengths != nullptr ? int32_t(actions[row]) : action_numbers[size_t(actions[row])];
    pooled.strength = strengths != nullptr ? strengths[row] : 1.0f;
    pooled.seed = SEED_NO_SEED;
    pooled.row = write_rows ? int32_t(row) : -1;
    workers->post(batch[row]);
  }
  workers->wake();
  return SEED_OK;
}

// ---- Snapshots ---------------------------------------------------------------------------------------------------

// Raised whenever Lane, PictureStarts or anything in them changes its meaning.
constexpr uint32_t kLaneVersion = 2;
constexpr char kLaneMagic[8] = {'S', 'E', 'E', 'D', 'L', 'A', 'N', 'E'};

LaneHeader lane_header(const Pool& pool, int32_t num_planes, int32_t num_picture_rows) {
  LaneHeader header{};
  std::memcpy(header.magic, kLaneMagic, sizeof header.magic);
  header.version = kLaneVersion;
  header.layout_bytes = uint32_t(sizeof(Lane) + sizeof(PictureStarts));
  std::strncpy(header.game, kGameNames[pool.game_index], sizeof header.game - 1);
  header.img_height = pool.options.img_height;
  header.img_width = pool.options.img_width;
  header.num_channels = pool.format->num_channels;
  header.stack_num = pool.options.stack_num;
  header.num_planes = num_planes;
  header.num_picture_rows = num_picture_rows;
  header.size_bytes = sizeof header + header.layout_bytes + size_t(num_planes) * pool.format->shown_bytes() +
                      size_t(num_picture_rows) * kScreenWidth * size_t(2 + pool.format->num_channels);
  return header;
}

// Copies between a snapshot's body and its parts in order; `Copy` is called as copy(part, bytes).
template <class Copy>
void for_each_part(Lane& lane, PictureStarts& starts, uint8_t* planes, size_t planes_bytes,
                   std::vector<uint8_t>& picture_rows, Copy&& copy) {
  copy(reinterpret_cast<uint8_t*>(&lane), sizeof lane);
  copy(reinterpret_cast<uint8_t*>(&starts), sizeof starts);
  copy(planes, planes_bytes);
  copy(picture_rows.data(), picture_rows.size());
}

// The rows that a lane stores, in a snapshot: those of the two buffers, then those of each channel shown.
std::vector<uint8_t> unpacked_rows(const StoredRows* stored) {
  if (stored == nullptr) return {};
  const size_t bytes = stored->num_bytes();
  std::vector<uint8_t> rows(bytes * size_t(2 + stored->num_channels));
  uint8_t* out = rows.data();
  for (int i = 0; i < 2; ++i, out += bytes) stored->buffers[i].unpack(out);
  for (int i = 0; i < stored->num_channels; ++i, out += bytes) stored->shown[i].unpack(out);
  return rows;
}

std::unique_ptr<StoredRows> packed_rows(const PictureFormat& format, int num_rows, const std::vector<uint8_t>& rows) {
  if (num_rows == 0) return nullptr;
  std::unique_ptr<StoredRows> stored(new StoredRows(format, format.display.height - num_rows));
  const size_t bytes = stored->num_bytes();
  const uint8_t* in = rows.data();
  for (int i = 0; i < 2; ++i, in += bytes) stored->buffers[i].pack(in, bytes);
  for (int i = 0; i < stored->num_channels; ++i, in += bytes) stored->shown[i].pack(in, bytes);
  return stored;
}

// ---- Arguments ---------------------------------------------------------------------------------------------------

int32_t num_threads_of(const seed_pool_options& options) {
  const int32_t processors = std::max(1, int32_t(std::thread::hardware_concurrency()));
  return std::min(options.num_threads > 0 ? options.num_threads : processors, options.num_envs);
}

// Fills a new pool; throws std::bad_alloc or std::system_error.
void build_pool(Pool& pool, const Rom& rom, const int32_t* modes, const int32_t* difficulties) {
  const seed_pool_options& options = pool.options;
  pool.program.resize(rom_program_length(rom));
  Rom prepared = rom;
  rom_predecode(prepared, pool.program.data());
  prepared.translation = translation_of(pool.game_index);
  pool.game = atari_game(prepared, pool.game_index, kTables);
  pool.lane_options = lane_options_of(options, pool.game.game);
  pool.action_numbers = action_numbers_of(options, pool.game.game);

  const SimdLevel simd = options.use_simd ? detect_simd() : SimdLevel::kScalar;
  pool.format.reset(
      new PictureFormat(pool.game.display, options.img_height, options.img_width, options.grayscale != 0, simd));
  pool.format->keep_pictures = options.keep_pictures != 0;
  for (int channel = 0; channel < pool.format->num_channels; ++channel)
    fill_map(pool.format->channels[channel], pool.game.display.pal, options.grayscale != 0, channel);

  pool.modes.assign(size_t(options.num_envs), pool.game.default_mode);
  if (modes != nullptr) pool.modes.assign(modes, modes + options.num_envs);
  pool.difficulties.assign(size_t(options.num_envs), 0);
  if (difficulties != nullptr) pool.difficulties.assign(difficulties, difficulties + options.num_envs);

  pool.lanes = std::vector<PoolLane>(size_t(options.num_envs));
  for (PoolLane& pooled : pool.lanes) pooled.planes.reset(new uint8_t[pool.stack_bytes()]);

  // When lanes run while the caller does something else, the caller is no help.
  const bool overlaps = options.batch_size < options.num_envs;
  const int32_t num_workers = num_threads_of(options) - (overlaps ? 0 : 1);
  for (int32_t i = 0; i <= num_workers; ++i) pool.painters.emplace_back(new Painter(*pool.format, pool.game.rom));
  pool.process = getpid();
  pool.workers.reset(new Workers(num_workers, options.thread_affinity_offset, options.num_envs,
                                 [&pool](int thread, int task) { pool.run_task(thread, task); }));
}

seed_status check_process(const Pool& pool) {
  if (pool.process == getpid()) return SEED_OK;
  return fail(SEED_BAD_STATE, "the pool's threads live in process %d: create a pool in each process", pool.process);
}

seed_status check_idle(const Pool& pool) {
  if (pool.workers->num_outstanding() == 0) return SEED_OK;
  return fail(SEED_BAD_STATE, "%d lanes are still stepping: call recv first", pool.workers->num_outstanding());
}

// Drops the results of lanes that are still stepping: a reset is how a loop starts over.
void wait_for_lanes(Pool& pool) {
  if (pool.workers->num_outstanding() > 0) pool.workers->wait(pool.workers->num_outstanding());
}

seed_status check_lane(const Pool& pool, int32_t lane) {
  return check_range("lane", lane, 0, pool.options.num_envs - 1);
}

}  // namespace
}  // namespace seed

struct seed_pool : seed::Pool {};

using namespace seed;

extern "C" {

seed_status seed_pool_default_options(seed_pool_options* options) {
  SEED_CHECK(check_pointer(options, "options"));
  *options = default_pool_options();
  return SEED_OK;
}

seed_status seed_pool_create(int32_t game, const uint8_t* rom, int64_t rom_size, const seed_pool_options* options,
                             const int32_t* modes, const int32_t* difficulties, seed_pool** pool) {
  SEED_CHECK(check_new_pool(game, rom, rom_size, options, modes, difficulties, pool));
  try {
    std::unique_ptr<seed_pool> created(new seed_pool{});
    created->game_index = game;
    created->options = *options;
    if (created->options.batch_size == 0) created->options.batch_size = options->num_envs;
    created->rom_bytes.assign(rom, rom + rom_size);
    Rom prepared{};
    SEED_CHECK(prepare_rom(game, created->rom_bytes, prepared));
    build_pool(*created, prepared, modes, difficulties);
    const Start start = created->make_start(0, *created->painters.back());
    if (start.lane.atari.error == AtariError::kWrongFormat)
      return fail(SEED_INVALID_ARGUMENT, "the picture's format is not that of %s: this is another ROM image",
                  kGameNames[game]);
    created->starts.emplace(std::make_pair(created->modes[0], created->difficulties[0]), start);
    *pool = created.release();
    return SEED_OK;
  } catch (const std::bad_alloc&) {
    return fail(SEED_OUT_OF_MEMORY, "not enough memory for %d environments", options->num_envs);
  } catch (const std::system_error& error) {
    return fail(SEED_OUT_OF_MEMORY, "the threads cannot be started: %s", error.what());
  }
}

seed_status seed_pool_destroy(seed_pool* pool) {
  if (pool == nullptr) return SEED_OK;
  if (pool->process != getpid()) return SEED_OK;  // the threads did not survive the fork: nothing can be joined
  delete pool;
  return SEED_OK;
}

seed_status seed_pool_set_stream(seed_pool* pool, void* stream) {
  SEED_CHECK(check_pointer(pool, "pool"));
  return stream == nullptr ? SEED_OK : fail(SEED_INVALID_ARGUMENT, "the CPU pool has no stream: give NULL");
}

seed_status seed_pool_synchronize(seed_pool* pool) { return check_pointer(pool, "pool"); }

seed_status seed_pool_actions(const seed_pool* pool, int32_t* num_actions, int32_t* actions) {
  SEED_CHECK(check_pointer(pool, "pool"));
  SEED_CHECK(check_pointer(num_actions, "num_actions"));
  *num_actions = int32_t(pool->action_numbers.size());
  if (actions != nullptr) std::copy(pool->action_numbers.begin(), pool->action_numbers.end(), actions);
  return SEED_OK;
}

seed_status seed_pool_set_modes(seed_pool* pool, const uint8_t* mask, const int32_t* modes,
                                const int32_t* difficulties) {
  SEED_CHECK(check_pointer(pool, "pool"));
  SEED_CHECK(check_process(*pool));
  SEED_CHECK(check_modes(pool->game_index, pool->num_envs(), mask, modes, difficulties));
  wait_for_lanes(*pool);
  replace_values(mask, modes, pool->modes);
  replace_values(mask, difficulties, pool->difficulties);
  return SEED_OK;
}

seed_status seed_pool_reset(seed_pool* pool, const uint8_t* mask, const int32_t* seeds, const int32_t* env_ids,
                            const seed_pool_outputs* outputs) {
  SEED_CHECK(check_pointer(pool, "pool"));
  SEED_CHECK(check_pointer(outputs, "outputs"));
  SEED_CHECK(check_process(*pool));
  wait_for_lanes(*pool);
  const bool all_seeded = [&] {
    for (int32_t i = 0; i < pool->num_envs(); ++i) {
      if (mask != nullptr && mask[i] == 0) continue;
      if (seeds == nullptr || seeds[i] == SEED_NO_SEED) return false;
    }
    return true;
  }();
  if (!pool->has_reset && (mask != nullptr || !all_seeded))
    return fail(SEED_BAD_STATE, "the first reset must start every lane with a seed");
  if (seeds != nullptr) {
    for (int32_t i = 0; i < pool->num_envs(); ++i)
      if ((mask == nullptr || mask[i] != 0) && seeds[i] < SEED_NO_SEED)
        return fail(SEED_INVALID_ARGUMENT, "the seed of lane %d is %d, it must be at least 0", i, seeds[i]);
  }
  try {
    pool->prepare_starts(mask, seeds);
  } catch (const std::bad_alloc&) {
    return fail(SEED_OUT_OF_MEMORY, "not enough memory to load the cartridge");
  }
  const bool direct = pool->options.batch_size == pool->num_envs();
  pool->direct = outputs;
  for (int32_t i = 0; i < pool->num_envs(); ++i) {
    PoolLane& pooled = pool->lanes[size_t(i)];
    const bool resets = mask == nullptr || mask[i] != 0;
    pooled.task = resets ? TaskKind::kReset : TaskKind::kReport;
    pooled.seed = resets && seeds != nullptr ? seeds[i] : SEED_NO_SEED;
    pooled.env_id = env_ids != nullptr ? env_ids[i] : pool->options.first_env_id + i;
    pooled.row = direct ? i : -1;
    pool->workers->post(i);
  }
  pool->workers->wake();
  pool->has_reset = true;
  return pool->collect(*outputs, direct);
}

seed_status seed_pool_send(seed_pool* pool, const int64_t* actions, const float* strengths) {
  SEED_CHECK(check_pointer(pool, "pool"));
  SEED_CHECK(check_pointer(actions, "actions"));
  SEED_CHECK(check_process(*pool));
  if (!pool->has_reset) return fail(SEED_BAD_STATE, "the environments have not been reset: call reset first");
  if (pool->workers->num_outstanding() + int(pool->batch.size()) > pool->num_envs())
    return fail(SEED_BAD_STATE, "the lanes of the last batch are stepping already: call recv first");
  return pool->post_steps(actions, strengths, false);
}

seed_status seed_pool_recv(seed_pool* pool, const seed_pool_outputs* outputs) {
  SEED_CHECK(check_pointer(pool, "pool"));
  SEED_CHECK(check_pointer(outputs, "outputs"));
  SEED_CHECK(check_process(*pool));
  if (pool->workers->num_outstanding() < pool->options.batch_size)
    return fail(SEED_BAD_STATE, "fewer than batch_size lanes are stepping: call send first");
  return pool->collect(*outputs, false);
}

seed_status seed_pool_step(seed_pool* pool, const int64_t* actions, const float* strengths,
                           const seed_pool_outputs* outputs) {
  SEED_CHECK(check_pointer(pool, "pool"));
  SEED_CHECK(check_pointer(actions, "actions"));
  SEED_CHECK(check_pointer(outputs, "outputs"));
  SEED_CHECK(check_process(*pool));
  if (pool->options.batch_size < pool->num_envs()) {
    SEED_CHECK(seed_pool_send(pool, actions, strengths));
    return seed_pool_recv(pool, outputs);
  }
  if (!pool->has_reset) return fail(SEED_BAD_STATE, "the environments have not been reset: call reset first");
  SEED_CHECK(check_idle(*pool));
  pool->direct = outputs;
  SEED_CHECK(pool->post_steps(actions, strengths, true));
  return pool->collect(*outputs, true);
}

seed_status seed_pool_observe(seed_pool* pool, const seed_pool_outputs* outputs) {
  SEED_CHECK(check_pointer(pool, "pool"));
  SEED_CHECK(check_pointer(outputs, "outputs"));
  SEED_CHECK(check_idle(*pool));
  for (int32_t i = 0; i < pool->num_envs(); ++i) pool->write_row(pool->lanes[size_t(i)], i, *outputs, i);
  return SEED_OK;
}

seed_status seed_pool_lane_capacity(const seed_pool* pool, int64_t* capacity) {
  SEED_CHECK(check_pointer(pool, "pool"));
  SEED_CHECK(check_pointer(capacity, "capacity"));
  *capacity = int64_t(lane_header(*pool, pool->options.stack_num, pool->format->display.height).size_bytes);
  return SEED_OK;
}

seed_status seed_pool_save_lane(seed_pool* pool, int32_t lane, uint8_t* bytes, int64_t capacity, int64_t* size) {
  SEED_CHECK(check_pointer(pool, "pool"));
  SEED_CHECK(check_pointer(bytes, "bytes"));
  SEED_CHECK(check_pointer(size, "size"));
  SEED_CHECK(check_lane(*pool, lane));
  SEED_CHECK(check_idle(*pool));
  if (!pool->has_reset) return fail(SEED_BAD_STATE, "the environments have not been reset: call reset first");
  PoolLane& pooled = pool->lanes[size_t(lane)];
  const StoredRows* const stored = pooled.pictures.stored.get();
  const int32_t height = pool->format->display.height;
  LaneHeader header = lane_header(*pool, pooled.num_planes, stored == nullptr ? 0 : height - stored->first_row);
  if (capacity < int64_t(header.size_bytes))
    return fail(SEED_INVALID_ARGUMENT, "the buffer has %lld bytes, the snapshot %lld", static_cast<long long>(capacity),
                static_cast<long long>(header.size_bytes));
  // Planes from the oldest to the newest, so that equal lanes have equal snapshots.
  const size_t plane_bytes = pool->format->shown_bytes();
  std::vector<uint8_t> planes(size_t(pooled.num_planes) * plane_bytes);
  for (int32_t i = 0; i < pooled.num_planes; ++i) {
    const int32_t age = pooled.num_planes - 1 - i;
    const int32_t index = (pooled.newest - age + pool->options.stack_num) % pool->options.stack_num;
    std::memcpy(&planes[size_t(i) * plane_bytes], &pooled.planes[size_t(index) * plane_bytes], plane_bytes);
  }
  uint8_t* out = bytes + sizeof header;
  std::vector<uint8_t> rows = unpacked_rows(stored);
  for_each_part(pooled.lane, pooled.pictures.starts, planes.data(), planes.size(), rows,
                [&](uint8_t* part, size_t count) { std::memcpy(out, part, count), out += count; });
  header.checksum = hash_bytes(bytes + sizeof header, header.size_bytes - sizeof header);
  std::memcpy(bytes, &header, sizeof header);
  *size = int64_t(header.size_bytes);
  return SEED_OK;
}

seed_status seed_pool_restore_lane(seed_pool* pool, int32_t lane, const uint8_t* bytes, int64_t size) {
  SEED_CHECK(check_pointer(pool, "pool"));
  SEED_CHECK(check_pointer(bytes, "bytes"));
  SEED_CHECK(check_lane(*pool, lane));
  SEED_CHECK(check_idle(*pool));
  if (!pool->has_reset) return fail(SEED_BAD_STATE, "the environments have not been reset: call reset first");
  LaneHeader header;
  SEED_CHECK(read_lane_header(bytes, size, kLaneMagic, header));
  SEED_CHECK(check_range("num_planes", header.num_planes, 0, pool->options.stack_num));
  const int32_t height = pool->format->display.height;
  SEED_CHECK(check_range("num_picture_rows", header.num_picture_rows, 0, height));
  const LaneHeader expected = lane_header(*pool, header.num_planes, header.num_picture_rows);
  SEED_CHECK(check_lane_header(header, expected, bytes, size));
  try {
    std::vector<uint8_t> rows(size_t(header.num_picture_rows) * kScreenWidth * size_t(2 + pool->format->num_channels));
    PoolLane& pooled = pool->lanes[size_t(lane)];
    const uint8_t* in = bytes + sizeof header;
    const size_t planes_bytes = size_t(header.num_planes) * pool->format->shown_bytes();
    for_each_part(pooled.lane, pooled.pictures.starts, pooled.planes.get(), planes_bytes, rows,
                  [&](uint8_t* part, size_t count) { std::memcpy(part, in, count), in += count; });
    pooled.pictures.stored = packed_rows(*pool->format, header.num_picture_rows, rows);
    pooled.num_planes = header.num_planes;
    pooled.newest = std::max(0, header.num_planes - 1);
    pooled.reward = 0;
    pooled.terminated = pooled.truncated = pooled.reports_end = false;
    pool->modes[size_t(lane)] = pooled.lane.atari.mode;
    pool->difficulties[size_t(lane)] = pooled.lane.atari.difficulty;
  } catch (const std::bad_alloc&) {
    return fail(SEED_OUT_OF_MEMORY, "not enough memory for the pictures of lane %d", lane);
  }
  return SEED_OK;
}

seed_status seed_pool_ram(const seed_pool* pool, uint8_t* ram) {
  SEED_CHECK(check_pointer(pool, "pool"));
  SEED_CHECK(check_pointer(ram, "ram"));
  SEED_CHECK(check_idle(*pool));
  for (const PoolLane& pooled : pool->lanes) {
    std::memcpy(ram, pooled.lane.atari.console.riot.ram, sizeof pooled.lane.atari.console.riot.ram);
    ram += sizeof pooled.lane.atari.console.riot.ram;
  }
  return SEED_OK;
}

seed_status seed_pool_memory(const seed_pool* pool, int64_t* per_lane, int64_t* shared) {
  SEED_CHECK(check_pointer(pool, "pool"));
  SEED_CHECK(check_idle(*pool));
  size_t largest = 0, painters = 0;
  for (const PoolLane& pooled : pool->lanes) {
    size_t bytes = sizeof pooled + pool->stack_bytes();
    if (pooled.final_stack != nullptr) bytes += pool->stack_bytes();
    if (pooled.pictures.stored) bytes += pooled.pictures.stored->memory_bytes();
    largest = std::max(largest, bytes);
  }
  for (const std::unique_ptr<Painter>& painter : pool->painters) painters += painter->memory_bytes();
  if (per_lane != nullptr) *per_lane = int64_t(largest);
  if (shared != nullptr)
    *shared = int64_t(painters + pool->rom_bytes.size() + pool->program.size() * sizeof(Instruction) +
                      pool->starts.size() * sizeof(Start));
  return SEED_OK;
}
}

// The same copies as in the measurement, with the times of each.

#include <atomic>
#include <limits>

#include "core/clock.hpp"
#include "transfer/transfers.hpp"

namespace cclmark {

TracedCopies Transfers::trace(size_t copies, double limit_s) {
  constexpr double kNever = std::numeric_limits<double>::quiet_NaN();
  const std::vector<Flow>& flows = transfer_.flows;
  const bool in_call = stations_[0]->device.synchronous();
  const bool turns = !in_call && (waits_in_calls() || !gate_.holds());
  const bool gated = !in_call && !turns;
  TracedCopies traced;
  traced.flows.resize(flows.size());
  std::vector<std::vector<Event>> marks(flows.size());
  std::vector<size_t> run_here;

  poison();
  gate_.close(limit_s);
  struct Opener {  // an error must not leave a device waiting
    Gate& gate;
    ~Opener() { gate.open(); }
  } opener{gate_};
  for (size_t i = 0; i < flows.size(); ++i) {
    const Move& move = moves_[i];
    if (move.runner == nullptr) continue;
    run_here.push_back(i);
    TracedFlow& flow = traced.flows[i];
    flow.call_begin_ns.reserve(copies);
    flow.call_end_ns.reserve(copies);
    if (in_call) continue;
    Device& device = move.runner->device;
    Lane& lane = *move.runner->lanes[move.lane];
    device.activate();
    for (size_t k = 0; k < 2 * copies + 1; ++k) marks[i].emplace_back(device);
    flow.reference = record_reference(device, lane.stream.get(), lane.begin, marks[i].back(), [&] {
      wait_until_idle(device, lane.stream.get(), [this] { rank_group_.check(RankGroup::kDevice); });
    });
  }
  for (size_t i : run_here) {
    if (!gated) break;
    const Move& move = moves_[i];
    move.runner->device.activate();
    gate_.hold(move.runner->device, move.runner->lanes[move.lane]->stream.get());
  }
  if (!gated) rank_group_.barrier();

  auto copy_once = [&](size_t i, size_t number) {
    const Move& move = moves_[i];
    Device& device = move.runner->device;
    void* stream = move.runner->lanes[move.lane]->stream.get();
    device.activate();
    if (!in_call) device.record(marks[i][2 * number].get(), stream);
    traced.flows[i].call_begin_ns.push_back(now_ns());
    copy(flows[i], move, 1);
    traced.flows[i].call_end_ns.push_back(now_ns());
    if (!in_call) device.record(marks[i][2 * number + 1].get(), stream);
  };
  if (turns) {
    for (size_t number = 0; number < copies; ++number) {
      for (size_t i : run_here) copy_once(i, number);
    }
  } else {
    for (size_t i : run_here) {
      for (size_t number = 0; number < copies; ++number) copy_once(i, number);
    }
  }
  if (gated) {
    rank_group_.barrier();
    traced.gate_ns = now_ns();
  }
  gate_.open();

  Deadline deadline(limit_s);
  std::vector<double> late(flows.size(), kNever);
  for (size_t i : run_here) {
    Move& move = moves_[i];
    late[i] = ends_before(*move.runner, move.runner->lanes[move.lane], deadline) ? 0 : 1;
  }
  traced.complete_ns = now_ns();
  for (size_t i : run_here) {
    if (in_call || late[i] > 0) continue;
    Device& device = moves_[i].runner->device;
    device.activate();
    void* reference = marks[i].back().get();
    for (size_t number = 0; number < copies; ++number) {
      TracedFlow& flow = traced.flows[i];
      flow.device_begin_s.push_back(device.elapsed_s(reference, marks[i][2 * number].get()));
      flow.device_end_s.push_back(device.elapsed_s(reference, marks[i][2 * number + 1].get()));
    }
  }
  for (double value : share(late)) traced.timed_out.push_back(value > 0);
  return traced;
}

}  // namespace cclmark

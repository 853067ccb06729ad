#include "nccl/connection_log.hpp"

#include <cstdlib>
#include <cstring>
#include <string>

#include "nccl/debug_file.hpp"

namespace fake_nccl {
namespace {

constexpr int kChannels = 2;

bool is_set(const char* variable) {
  const char* value = std::getenv(variable);
  return value != nullptr && *value != '\0' && std::strcmp(value, "0") != 0;
}

std::string transport() {
  if (!is_set("NCCL_P2P_DISABLE")) return "P2P/CUMEM";
  return is_set("NCCL_SHM_DISABLE") ? "NET/Socket/0" : "SHM/direct/direct";
}

}  // namespace

void log_connections(int rank, int ranks) {
  FILE* file = debug_file("INIT");
  if (file == nullptr) return;
  const std::string begin = "fake:1:1 [0] NCCL INFO ";
  auto line = [&](const std::string& text) { std::fputs((begin + text + "\n").c_str(), file); };
  for (const char* name : {"NCCL_P2P_DISABLE", "NCCL_SHM_DISABLE", "NCCL_ALGO", "NCCL_PROTO"}) {
    const char* value = std::getenv(name);
    if (value != nullptr) line(std::string(name) + " set by environment to " + value + ".");
  }
  const char* other = std::getenv("CCLMARK_FAKE_SUBSET");
  for (const std::string& size : {std::to_string(ranks), std::string(other ? other : "")}) {
    if (size.empty()) continue;
    line("comm 0x1 rank " + std::to_string(rank) + " nRanks " + size + " nNodes 1 localRanks " +
         size + " localRank " + std::to_string(rank) + " MNNVL 0");
  }
  const int next = (rank + 1) % ranks;
  const int previous = (rank + ranks - 1) % ranks;
  std::string trees = "Trees";
  for (int channel = 0; channel < kChannels; ++channel) {
    const std::string number = std::to_string(channel);
    line("Ring 0" + number + " : " + std::to_string(previous) + " -> " + std::to_string(rank) +
         " -> " + std::to_string(next));
    // A chain, as within a host: every rank's parent is the one before.
    const int child = rank + 1 < ranks ? rank + 1 : -1;
    trees += " [" + number + "] " + std::to_string(child) + "/-1/-1->" + std::to_string(rank) +
             "->" + std::to_string(rank - 1);
    const bool is_network = transport().starts_with("NET");
    line("Channel 0" + number + "/0 : " + std::to_string(rank) + "[" + std::to_string(rank) +
         "] -> " + std::to_string(next) + "[" + std::to_string(next) + "] " +
         (is_network ? "[send] " : "") + "via " + transport());
    if (is_network) {
      line("Channel 0" + number + "/0 : " + std::to_string(previous) + "[" +
           std::to_string(previous) + "] -> " + std::to_string(rank) + "[" + std::to_string(rank) +
           "] [receive] via " + transport());
    }
  }
  line(trees);
  line("P2P Chunksize set to 524288");
  line(
      "24 coll channels, 24 collnet channels, 0 nvls channels, 32 p2p channels, 16 p2p channels "
      "per "
      "peer");
  if (is_set("CCLMARK_FAKE_WARNING")) {
    std::fputs("fake:1:1 [0] init.cc:1 NCCL WARN the fake warns\n", file);
  }
  std::fflush(file);
}

}  // namespace fake_nccl

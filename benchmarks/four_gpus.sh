#!/usr/bin/env bash
# The figures of four GPUs in parts, each with a time limit and an output file of its own.
#
#   NCCL_TESTS=DIR OUT=DIR [GPUS=4] benchmarks/four_gpus.sh [PART ...]
#
# DIR of NCCL_TESTS: its programs, built with MPI=1 for the NCCL that cclmark loads. PART: explained,
# tuned, tuned_with_changes, messages, beside_nccl_tests, beside_five, beside_nccl_tests_with_changes,
# bisected, thresholds, whole, trained, profiled, graphs, planned, predicted, flagcx_trained,
# between_hosts [all]. Parts that compare files of `cclmark tune` require the part that writes them.
# CHANGED: the operations of the parts with program changes [all five]. GPUS=8: tuned, beside_five
# and graphs with eight ranks.
#
# Targets: beside_five: the geometric mean of each operation from 1 MiB on above 1, no size below
# 0.98; graphs: within 3 % of nccl-tests -G; planned: bytes within 1 %; predicted: an error below
# that of the same bus bandwidth; between_hosts: the interval of a variable without effect contains 1.
# NVLink multicast is off, because some machines fail with it. The exit code is the largest of a part.
set -uo pipefail
cd "$(dirname "$0")/.."
: "${NCCL_TESTS:?the directory of the programs of nccl-tests}" "${OUT:?the directory of the output}"
PYTHON=${PYTHON:-python3}
export NCCL_NVLS_ENABLE=0 PYTHONUNBUFFERED=1
FIVE=all_reduce,all_gather,reduce_scatter,alltoall,sendrecv
CHANGED=${CHANGED:-$FIVE}
GPUS=${GPUS:-4}
mkdir -p "$OUT"

part() {
  local name=$1 limit_s=$2 begin_s=$SECONDS code
  shift 2
  timeout -k 10 "$limit_s" "$@" >"$OUT/$name.txt" 2>&1
  code=$?
  echo "$name: exit code $code after $((SECONDS - begin_s)) s"
  ((code <= worst)) || worst=$code
}

explained() {
  part explained 120 "$PYTHON" -m cclmark collectives -b 8 -e 4G -f 4 --explain \
    --journal "$OUT/explained.jsonl"
  part explained_4G 60 "$PYTHON" -m cclmark collectives -b 4G -e 4G --explain \
    --journal "$OUT/explained_4G.jsonl"
}
tuned() {
  part tuned 420 "$PYTHON" -m cclmark tune all_reduce,all_gather,reduce_scatter -b 1K -e 1G \
    --budget 200s --sm-cost 0 -O "$OUT/tuned" --journal "$OUT/tuned.jsonl"
  part tuned_five 900 "$PYTHON" -m cclmark tune $FIVE -b 1K -e 1G --budget 200s --sm-cost 0 \
    -O "$OUT/tuned_five" --journal "$OUT/tuned_five.jsonl"
}
tuned_with_changes() {
  part tuned_with_changes 900 "$PYTHON" -m cclmark tune "$CHANGED" -b 8 -e 128M -f 4 --app-changes yes \
    --timing graph --budget 120s --sm-cost 0 -O "$OUT/changed" --journal "$OUT/changed.jsonl"
}
messages() {
  part messages 420 "$PYTHON" -m cclmark tune sendrecv,alltoall -b 64K -e 256M --budget 200s \
    --settings NCCL_MIN_CTAS,NCCL_MIN_P2P_NCHANNELS,NCCL_P2P_NVL_CHUNKSIZE -O "$OUT/messages" \
    --journal "$OUT/messages.jsonl"
}
beside_nccl_tests() {
  part beside_nccl_tests 200 "$PYTHON" benchmarks/tune_beside_nccl_tests.py --ranks 4 --rounds 3 \
    --nccl-tests "$NCCL_TESTS" --tuned "$OUT/tuned" --journal "$OUT/tuned.jsonl" \
    --out "$OUT/beside_nccl_tests.json"
}
beside_five() {
  part beside_five 300 "$PYTHON" benchmarks/tune_beside_nccl_tests.py --ranks "$GPUS" --rounds 3 \
    --nccl-tests "$NCCL_TESTS" --tuned "$OUT/tuned_five" --journal "$OUT/tuned_five.jsonl" \
    --operations "$FIVE" --out "$OUT/beside_five.json"
}
beside_nccl_tests_with_changes() {
  part beside_nccl_tests_with_changes 200 "$PYTHON" benchmarks/tune_beside_nccl_tests.py --ranks 4 \
    --rounds 3 --nccl-tests "$NCCL_TESTS" --tuned "$OUT/changed" --journal "$OUT/changed.jsonl" \
    --operations "$CHANGED" --begin 8 --end 128M --factor 4 \
    --graphs 20 --out "$OUT/beside_nccl_tests_with_changes.json"
}
bisected() {
  part bisected 420 "$PYTHON" -m cclmark experiment all_reduce -b 64M -e 1G -f 16 \
    --bisect NCCL_MAX_CTAS=1:64 --keep 99% --journal "$OUT/bisected.jsonl"
}
thresholds() {
  local start
  for start in 0 1; do
    part "thresholds_$start" 400 "$PYTHON" benchmarks/bridge_thresholds.py --devices cuda:0-3 \
      --islands 0-1,2-3 --budget 280s --start $start --out "$OUT/thresholds"
  done
}
whole() {
  local way
  for way in "" --through-host; do
    part "whole$way" 200 "$PYTHON" -m cclmark experiment all_reduce,broadcast --ccl bridge \
      --devices cuda:0-3 --islands 0-1,2-3 $way -b 64K -e 256M -f 2 --rounds 5 \
      --vary CCLMARK_BRIDGE_WHOLE_BYTES=64K,256K,512K,2M,4M,8M,16M,32M --journal "$OUT/whole$way.jsonl"
  done
}
trained() {
  local way
  for way in fsdp tp pp; do
    part "trained_$way" 120 "$PYTHON" -m cclmark train --model gpt2-medium --parallel $way \
      --batch 16 -n 20 -w 5 --rounds 3 --vary NCCL_P2P_DISABLE=1 \
      --journal "$OUT/trained_$way.jsonl"
  done
}

profiled() {
  local way disabled
  for way in fsdp2 tp pp; do
    for disabled in 0 1; do
      part "profiled_${way}_$disabled" 70 env $( ((disabled)) && echo NCCL_P2P_DISABLE=1) OMP_NUM_THREADS=4 \
        "$PYTHON" -m cclmark profile --journal "$OUT/profiled_${way}_$disabled.jsonl" -- \
        "$PYTHON" -m torch.distributed.run --standalone --nproc-per-node 4 \
        benchmarks/torch/profiled_training.py "$way" --steps 40 --tokens 16384 \
        --result "$OUT/profiled_${way}_$disabled.json"
    done
  done
}

graphs() {
  part graphs 300 "$PYTHON" benchmarks/graphs.py --nccl-tests "$NCCL_TESTS" --ranks "$GPUS" --rounds 3 \
    --out "$OUT/graphs_table.txt"
}
planned() {
  local way
  part planned_one 60 "$PYTHON" -m cclmark train --model gpt2-medium -g 1 -n 20 -w 5 \
    --journal "$OUT/planned_one.jsonl"
  for way in ddp fsdp tp pp; do
    part "planned_$way" 90 "$PYTHON" -m cclmark train --model gpt2-medium --parallel $way -g "$GPUS" \
      --batch 16 -n 20 -w 5 --journal "$OUT/planned_$way.jsonl"
  done
  part planned 60 "$PYTHON" benchmarks/scale/messages.py "$OUT/planned_one.jsonl" \
    "$OUT"/planned_{ddp,fsdp,tp,pp}.jsonl
}
predicted() {
  local number
  for number in 2 4; do
    part "predicted_$number" 90 "$PYTHON" -m cclmark collectives -g $number \
      --only all_reduce,all_gather,reduce_scatter -b 1K -e 1G -f 4 --journal "$OUT/predicted_$number.jsonl"
  done
  part predicted 30 "$PYTHON" benchmarks/scale/predictions.py --rows "$OUT"/predicted_{2,4}.jsonl
}
flagcx_trained() {
  local way
  for way in fsdp tp pp; do
    part "flagcx_trained_$way" 120 "$PYTHON" -m cclmark train --model gpt2-medium --parallel $way \
      --ccl torch:nccl,torch:flagcx --batch 16 -n 20 -w 5 --rounds 3 \
      --journal "$OUT/flagcx_trained_$way.jsonl"
  done
}
between_hosts() {
  part between_hosts 120 "$PYTHON" benchmarks/two_hosts.py --devices 0,1 2,3 -- "$PYTHON" -m cclmark \
    experiment all_reduce -b 64K -e 256M -f 8 --rounds 5 --allow-unknown-settings --one-at-a-time \
    --vary NCCL_NSOCKS_PERTHREAD=4 --vary NCCL_SOCKET_NTHREADS=4 --vary NCCL_ALGO=Tree \
    --vary CCLMARK_UNREAD=1 --journal "$OUT/between_hosts.jsonl"
  part between_hosts_tuned 240 "$PYTHON" benchmarks/two_hosts.py --devices 0,1 2,3 -- "$PYTHON" \
    -m cclmark tune all_reduce -b 1M -e 256M -f 4 --budget 120s --sm-cost 0 \
    --settings NCCL_NSOCKS_PERTHREAD,NCCL_SOCKET_NTHREADS,NCCL_ALGO \
    -O "$OUT/between_hosts" --journal "$OUT/between_hosts_tuned.jsonl"
}

[ $# -gt 0 ] || set -- explained tuned beside_five tuned_with_changes messages beside_nccl_tests \
  beside_nccl_tests_with_changes bisected thresholds whole trained profiled graphs planned predicted \
  flagcx_trained between_hosts
worst=0
for name; do
  if [ "$(type -t "$name")" != function ] || [ "$name" = part ]; then
    echo "unknown part: $name" >&2
    exit 2
  fi
  "$name"
done
exit "$worst"

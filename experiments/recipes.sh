#!/usr/bin/env bash
# Trains the paper's recipes at full length on stand-ins for its datasets (recipe_data.py).
# experiments/recipes.sh DATA OUT [JOBS]
# JOBS runs, 3 by default, share a GPU (three of UBC take 145 s on one H200). After an interruption the same command goes on where it stopped.
set -euo pipefail
cd "$(dirname "$0")/.."
data=$1 jobs=${3:-3}
mkdir -p "$2/runs"
out=$(realpath "$2")

prepare() {
  [ -d "$out/groups/$1" ] || python prepare_main.py --data_dir="$out/tfds" --output="$out/groups/$1" "${@:2}"
}
[ -d "$out/data" ] || { rm -rf "$out/part"; python experiments/recipe_data.py --data="$data" --output="$out/part" --max_groups=250; mv "$out/part" "$out/data"; }
ubc() {
  prepare "ubc$1" --dataset=ubc_phototour --config=notredame --source="$out/data/ubc/train/notredame" --size="$1"
}
hpatches() {
  prepare "hpatches$1" --dataset=hpatches --split=all --source="$out/data/hpatches/train" --size="$1" "${@:2}"
}
(ubc 32 && ubc 42) &
(hpatches 32 && hpatches 42 --label_mining) &
prepare rome32 --dataset=rome_patches --source="$out/data/rome" --size=32 &
wait

# Run, its flag file, its groups, what differs from the flag file.
runs() {
  echo hpatches hpatches hpatches42
  echo ubc-0 ubc ubc32
  echo ubc_binary ubc_binary ubc32
  echo ubc_st_binary ubc_st_binary ubc42
  echo hpatches_plain-0 hpatches_plain hpatches32
  echo rome rome rome32 --steps=5000
  echo rome_binary rome_binary rome32 --steps=5000
  for seed in 0 1 2; do
    echo ubc_st-$seed ubc_st ubc42 --seed=$seed
    echo ubc_st-slow-$seed ubc_st ubc42 --seed=$seed --transformer_rate=0.0001
    echo hpatches_st-$seed hpatches_st hpatches42 --seed=$seed
    echo hpatches_st-slow-$seed hpatches_st hpatches42 --seed=$seed --transformer_rate=0.0001
  done
  for length in 256 512 2048 4096; do
    echo ubc-$length ubc ubc32 --batch_size=$length
  done
  for seed in 1 2; do
    echo ubc-$seed ubc ubc32 --seed=$seed
    echo hpatches_plain-$seed hpatches_plain hpatches32 --seed=$seed
  done
}

train() {
  run=$1 file=$2 groups=$3
  shift 3
  python train_main.py --flagfile="flags/$file.cfg" --dataset= --groups="$OUT_DIR/groups/$groups" \
    --log_every=250 --train_dir="$OUT_DIR/runs/$run" "$@" > "$OUT_DIR/runs/$run.log" 2>&1 \
    || echo "$run: exit code $?: $(tail -n 1 "$OUT_DIR/runs/$run.log")"
}
export -f train
export OUT_DIR=$out
runs | xargs -P "$jobs" -L 1 bash -c 'train "$@"' train

score() {
  models=$(find "$out/runs" -path "$out/runs/$2/model.keras" -printf '%h\n' | sort | paste -sd,)
  python evaluate_main.py --benchmark="$1" --model="$models,sift,rootsift" --report_dir="$out/reports" "${@:3}"
}
score ubc 'ubc*' --data_dir="$out/data/ubc/test/notredame"
score hpatches '*' --data_dir="$out/data/hpatches/test" --split=all --verification_pairs=200000
score rome 'rome*' --data_dir="$out/data/rome"

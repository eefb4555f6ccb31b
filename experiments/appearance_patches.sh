#!/usr/bin/env bash
# Trains doap-fast-128 on views whose appearance is changed, and scores the runs by whole pipelines (docs/experiments/appearance_patches.md).
# experiments/appearance_patches.sh DATA OUT [FLAGS OF train_main.py]
# DATA is that of experiments/prepare.sh, with sfm/ (a folder of photographs a scene) and pose/. The webcams chamonix and stlouis are held out.
# Without further flags the runs are those of flags/doap-fast-128.cfg with the teacher doap-128, on a GPU. After an interruption the same command goes on where it stopped.
# $RUNS names runs to do, all by default, and $SEEDS their seeds, 0 to 2 by default; SEEDS= only prepares OUT/groups. $PLACES: see appearance_groups.sh.
set -euo pipefail
cd "$(dirname "$0")/.."
data=$(realpath "$1")
mkdir -p "$2"
out=$(realpath "$2")
shift 2
groups=$out/groups

# Groups of a run, and their weights. Those whose names end in -up stand upright.
mixture() {
  case $1 in
    control) echo photos-camera,webcam-0.4,notredame 0.6,0.3,0.1 ;;
    light) echo photos-light,webcam-0.4,notredame 0.6,0.3,0.1 ;;
    strong) echo photos-strong,webcam-0.4,notredame 0.6,0.3,0.1 ;;
    strong-bound) echo photos-strong,webcam-0.1,notredame 0.6,0.3,0.1 ;;
    strong-webcams) echo photos-strong,webcam-0.1,notredame 0.3,0.6,0.1 ;;
    scenes) echo photos-strong,webcam-0.1,notredame,et,fern,fox,kermit,lund,sceaux 0.5,0.3,0.08,0.01,0.02,0.05,0.01,0.02,0.01 ;;
    upright) echo photos-strong-up,webcam-0.1-up,notredame 0.45,0.45,0.1 ;;
    both) echo photos-strong-up,photos-strong,webcam-0.1-up,webcam-0.1,notredame 0.25,0.2,0.25,0.2,0.1 ;;
    mild) echo photos-camera-up,photos-strong-up,photos-strong,webcam-0.1-up,webcam-0.1,notredame 0.25,0.2,0.15,0.2,0.1,0.1 ;;
    mild-scenes) echo photos-camera-up,photos-strong-up,photos-strong,webcam-0.1-up,webcam-0.1,notredame,et,fern,fox,kermit,lund,sceaux 0.22,0.17,0.13,0.18,0.1,0.08,0.005,0.03,0.045,0.005,0.015,0.02 ;;
    even) echo photos-camera-up,photos-camera,photos-half,photos-strong-up,photos-strong,webcam-0.1-up,webcam-0.1,notredame,et,fern,fox,kermit,lund,sceaux 0.15,0.08,0.12,0.13,0.11,0.15,0.1,0.06,0.005,0.025,0.037,0.005,0.013,0.015 ;;
    level) echo photos-camera-up,photos-camera,photos-half,photos-strong-up,photos-strong,webcam-0.1-up,webcam-0.1,notredame,et,fern,fox,kermit,lund,sceaux 0.1,0.16,0.12,0.1,0.12,0.12,0.1,0.08,0.005,0.025,0.037,0.005,0.013,0.015 ;;
    *) echo "unknown run $1: there are control, light, strong, strong-bound, strong-webcams, scenes, upright, both, mild, mild-scenes, even and level" >&2; exit 2 ;;
  esac
}

train() {
  run=$1 seed=$2 parts=$3 weights=$4
  [ -e "$out/runs/$run-$seed/train.json" ] && [ -e "$out/runs/$run-$seed/saved_model" ] && return
  python train_main.py --flagfile=flags/doap-fast-128.cfg --groups="$groups/${parts//,/,$groups/}" --weights="$weights" \
    --validation_groups= --validation_fraction=0 --seed="$seed" --teacher=doap-128 --train_dir="$out/runs/$run-$seed" "${@:5}"
}
models=learned:doap-fast-128,learned_upright:doap-fast-128
for run in ${RUNS:-control light strong strong-bound strong-webcams scenes upright both mild mild-scenes even level}; do
  read -r parts weights <<< "$(mixture "$run")"
  parts_to_cut=${parts/et,fern,fox,kermit,lund,sceaux/scenes}
  experiments/appearance_groups.sh "$data" "$out" 32 14 ${parts_to_cut//,/ }
  for seed in ${SEEDS-0 1 2}; do
    train "$run" "$seed" "$parts" "$weights" "$@"
    models=$models,learned:$out/runs/$run-$seed,learned_upright:$out/runs/$run-$seed
  done
done

[ "${SEEDS-all}" ] || exit 0
[ -d "$out/webcam_sequences" ] || python experiments/webcam_sequences.py --cameras="$data/webcam/chamonix,$data/webcam/stlouis" --output="$out/webcam_sequences"
score() {
  python evaluate_main.py --benchmark="$1" --data_dir="$2" --model="$models" --report_dir="$out/reports/$3" "${@:4}"
}
score homography "$out/webcam_sequences" webcams --threshold=3
score homography "$data/hpatches_images" planes --threshold=3
score pose "$data/pose/castle_p19,$data/pose/entry_p10" facades --threshold=0.5

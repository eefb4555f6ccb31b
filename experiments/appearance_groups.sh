#!/usr/bin/env bash
# Cuts patch groups whose appearance is changed, for the networks that ship and for experiments/appearance_patches.sh.
# experiments/appearance_groups.sh DATA OUT SIZE MAGNIFICATION PART...
# DATA is that of experiments/prepare.sh, with sfm/ (a folder of photographs a scene). The webcams chamonix and stlouis are held out.
# Parts: photos-camera, photos-light, photos-strong and photos-half (at magnification 7), webcam-BOUND with the bound of visibility, notredame,
# scenes; those that end in -up stand upright. $PLACES of a photograph are cut at most, 100 by default.
# They lie in OUT/groups (32 pixels, magnification 14), OUT/groups-42, OUT/groups5 or OUT/groups5-42; those that are there are kept.
set -euo pipefail
cd "$(dirname "$0")/.."
data=$(realpath "$1")
mkdir -p "$2"
out=$(realpath "$2")
size=$3 magnification=$4
shift 4
groups=$out/groups
[ "$magnification" = 14 ] || groups+=$magnification
[ "$size" = 32 ] || groups+=-$size

prepare() {
  [ -e "$groups/$1/groups.json" ] || python prepare_main.py --data_dir="$out/tfds" --size="$size" --output="$groups/$1" "${@:2}"
}
cut() {
  prepare "$@" --max_overlap=0.7
}
photographs() {
  cut "$1" --source="$data/photos" --max_groups="${PLACES:-100}" "${@:2}"
}

for part; do
  upright=--oriented name=${part%-up}
  [ "$name" = "$part" ] || upright=--nooriented
  case $name in
    photos-half) photographs "$part" --magnification=7 --seed=6 ;;
    photos-*)
      case $part in photos-camera) seed=1 ;; photos-strong-up) seed=2 ;; photos-strong) seed=3 ;; *) seed=0 ;; esac
      photographs "$part" --magnification="$magnification" --appearance="${name#photos-}" "$upright" --seed="$seed"
      ;;
    webcam-*)
      case $part in webcam-0.1) seed=1 ;; *) seed=0 ;; esac
      cut "$part" --source="$data/webcam/*[!sx]/*.jpg" --kind=aligned --max_groups=2000 --magnification="$magnification" \
        --min_correlation="${name#webcam-}" "$upright" --seed="$seed"
      ;;
    notredame) prepare notredame --dataset=ubc_phototour --config=notredame --source="$data/notredame" ;;
    scenes)
      for scene in et fern fox kermit lund sceaux; do
        python experiments/reconstruct_scenes.py --scenes="$data/sfm/$scene" --folder="$out/scenes" --output="$out/scenes/$scene.npz"
        prepare "$scene" --dataset=colmap_patches --source="$out/scenes/$scene" --magnification="$magnification"
      done
      ;;
    *) echo "unknown part $part: see the first lines of $0" >&2; exit 2 ;;
  esac
done

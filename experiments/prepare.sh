#!/usr/bin/env bash
# Prepares the patch groups that the shipped networks and the experiments are trained and scored on.
# experiments/prepare.sh DATA GROUPS [MAGNIFICATION]
# DATA holds photos/ (photographs, among them the folder urban100/), webcam/ (one folder of aligned
# images per scene), notredame/ (UBC PhotoTour's mosaics), hpatches_images/ and oxford/ (image
# sequences with homographies).
set -euo pipefail
data=$1 groups=$2 magnification=${3:-14}
half=$(python -c "print($magnification / 2)")
prepare() {
  python "$(dirname "$0")/../prepare_main.py" --data_dir="$groups/tfds" "$@"
}
for size in 32 42; do
  cut() {
    prepare --size="$size" --magnification="$magnification" "$@"
  }
  cut --source="$data/photos" --max_groups=400 --max_overlap=0.7 --output="$groups/photos$size"
  cut --source="$data/photos" --max_groups=200 --max_overlap=0.7 --magnification="$half" --seed=6 --output="$groups/photos$size-half"
  cut --source="$data/webcam" --kind=aligned --max_groups=4000 --max_overlap=0.7 --output="$groups/webcam$size"
  cut --source="$data/hpatches_images" --kind=sequences --max_groups=1000 --output="$groups/hseq$size"
  cut --source="$data/oxford" --kind=sequences --max_groups=1000 --output="$groups/oxford$size"
  prepare --size="$size" --dataset=ubc_phototour --config=notredame --source="$data/notredame" --output="$groups/notredame$size"
done
# The same frames for handcrafted descriptors: at HPatches' magnification, and at that of the networks.
for name in hpatches_images:hseq oxford:oxford; do
  cut_large() {
    prepare --source="$data/${name%%:*}" --kind=sequences --size=65 --max_groups=1000 "$@"
  }
  cut_large --magnification=5 --output="$groups/${name##*:}65"
  cut_large --magnification="$magnification" --output="$groups/${name##*:}65-$magnification"
done
# Photographs of repeated structure, for label mining.
prepare --source="$data/photos/urban100" --magnification="$magnification" --max_groups=400 --max_overlap=0.7 --label_mining --output="$groups/urban32"

#!/usr/bin/env bash
# Cuts the patch groups that the shipped networks and the experiments are trained and scored on.
# experiments/prepare.sh DATA GROUPS [MAGNIFICATION]
# DATA holds photos/ (photographs, among them the folder urban100/), webcam/ (a folder a scene of aligned images), notredame/
# (UBC PhotoTour's mosaics), hpatches_images/ and oxford/ (image sequences with homographies).
set -euo pipefail
data=$1 groups=$2 magnification=${3:-14}
half=$(python -c "print($magnification / 2)")
for size in 32 42; do
  prepare() {
    python -m doap_tf.data.prepare --size="$size" --magnification="$magnification" "$@"
  }
  prepare --source="$data/photos" --max_groups=400 --max_overlap=0.7 --output="$groups/photos$size"
  prepare --magnification="$half" --source="$data/photos" --max_groups=200 --max_overlap=0.7 --seed=6 --output="$groups/photos$size-half"
  prepare --source="$data/webcam" --kind=aligned --max_groups=4000 --max_overlap=0.7 --output="$groups/webcam$size"
  prepare --source="$data/notredame" --kind=mosaics --output="$groups/notredame$size"
  prepare --source="$data/hpatches_images" --kind=sequences --max_groups=1000 --output="$groups/hseq$size"
  prepare --source="$data/oxford" --kind=sequences --max_groups=1000 --output="$groups/oxford$size"
done
# The same frames as handcrafted descriptors want them.
for name in hpatches_images:hseq oxford:oxford; do
  python -m doap_tf.data.prepare --source="$data/${name%%:*}" --kind=sequences --size=65 --max_groups=1000 --output="$groups/${name##*:}65"
done
# Photographs of repeated structure, for label mining.
python -m doap_tf.data.prepare --source="$data/photos/urban100" --magnification="$magnification" --max_groups=400 --max_overlap=0.7 --label_mining --output="$groups/urban32"

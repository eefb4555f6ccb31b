#!/usr/bin/env bash
# Cuts the patch groups that the shipped networks and the experiments are trained and scored on.
# experiments/prepare.sh DATA GROUPS [SIZES]
# DATA holds photos/ (any photographs), webcam/ (a folder a scene of aligned images), notredame/
# (UBC PhotoTour's mosaics), hpatches_images/ and oxford/ (image sequences with homographies).
# Folders end in the patches' size, and in m and the magnification where that is not 12.
set -euo pipefail
data=$1 groups=$2 sizes=${3:-32 42}
cut() { # OUTPUT MAGNIFICATION OPTIONS…
  python -m doap_tf.data.prepare --output="$groups/$1" --magnification="$2" "${@:3}"
}
photos=(--source="$data/photos" --max_overlap=0.7)
webcam=(--source="$data/webcam" --kind=aligned --max_groups=4000 --max_overlap=0.7)
for size in $sizes; do
  cut "notredame$size" 12 --size="$size" --source="$data/notredame" --kind=mosaics
  for suffix in "" m14; do
    magnification=${suffix#m}
    cut "photos$size$suffix" "${magnification:-12}" --size="$size" "${photos[@]}" --max_groups=400
    cut "webcam$size$suffix" "${magnification:-12}" --size="$size" "${webcam[@]}"
  done
  for magnification in 6 24; do
    cut "photos${size}m$magnification" "$magnification" --size="$size" "${photos[@]}" \
      --max_groups=200 --seed="$magnification"
  done
  for name in hpatches_images:hseq oxford:oxford; do
    for suffix in "" m5 m14 m24; do
      magnification=${suffix#m}
      cut "${name##*:}$size$suffix" "${magnification:-12}" --size="$size" \
        --source="$data/${name%%:*}" --kind=sequences --max_groups=1000
    done
  done
done
# The same frames as handcrafted descriptors want them.
for name in hpatches_images:hseq oxford:oxford; do
  cut "${name##*:}65" 5 --size=65 --source="$data/${name%%:*}" --kind=sequences --max_groups=1000
done
# Photographs of repeated structure, for label mining.
cut urban32 12 --size=32 --source="$data/photos/urban100" --max_groups=400 --max_overlap=0.7 --label_mining

/** A circle in an image, as doap_tf/features/frames.py has it: pixel centres at integers, x right, y down. */
export interface Keypoint {
  x: number;
  y: number;
  radius: number;
  /** In radians, from x towards y. */
  angle: number;
  score: number;
}

/** Matching bits: nearest neighbours that choose each other, with Lowe's ratio. */

export interface Matches {
  /** Rows of the first and the second set, ascending in the first. */
  indices: [number, number][];
  distances: number[];
}

/**
 * Finds the matches of doap_tf.matching.match_descriptors; ties go to the lowest index.
 *
 * @param words Number of 32-bit words in a row.
 * @param ratio Limit of a distance over that of the second nearest; 1 for no limit.
 */
export function matchBits(first: Uint32Array, second: Uint32Array, words: number, ratio: number): Matches {
  const rows = first.length / words;
  const columns = second.length / words;
  const back = new Int32Array(columns).fill(-1);
  const backDistance = new Float64Array(columns).fill(Infinity);
  const nearest = new Int32Array(rows).fill(-1);
  const distance = new Float64Array(rows).fill(Infinity);
  const runnerUp = new Float64Array(rows).fill(Infinity);
  for (let i = 0; i < rows; i++) {
    for (let j = 0; j < columns; j++) {
      let bits = 0;
      for (let k = 0; k < words; k++) bits += popcount(first[i * words + k] ^ second[j * words + k]);
      if (bits < distance[i]) {
        runnerUp[i] = distance[i];
        distance[i] = bits;
        nearest[i] = j;
      } else if (bits < runnerUp[i]) {
        runnerUp[i] = bits;
      }
      if (bits < backDistance[j]) {
        backDistance[j] = bits;
        back[j] = i;
      }
    }
  }
  const matches: Matches = { indices: [], distances: [] };
  for (let i = 0; i < rows; i++) {
    const j = nearest[i];
    if (j < 0 || back[j] !== i) continue;
    // In float32, as NumPy computes it.
    if (ratio < 1 && !(distance[i] < Math.fround(Math.fround(ratio) * runnerUp[i]))) continue;
    matches.indices.push([i, j]);
    matches.distances.push(distance[i]);
  }
  return matches;
}

function popcount(word: number): number {
  word -= (word >>> 1) & 0x55555555;
  word = (word & 0x33333333) + ((word >>> 2) & 0x33333333);
  return Math.imul((word + (word >>> 4)) & 0x0f0f0f0f, 0x01010101) >>> 24;
}

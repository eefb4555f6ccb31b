/** Grey images, smoothing and resizing: what OpenCV does for Python, in float32. */

export interface Grey {
  width: number;
  height: number;
  pixels: Float32Array;
}

export function newGrey(width: number, height: number): Grey {
  return { width, height, pixels: new Float32Array(width * height) };
}

/** Grey values 0 to 255 with OpenCV's weights of red, green and blue. */
export function greyOf(image: ImageData): Grey {
  const grey = newGrey(image.width, image.height);
  const { data } = image;
  for (let i = 0, j = 0; i < grey.pixels.length; i++, j += 4) {
    grey.pixels[i] = (9798 * data[j] + 19235 * data[j + 1] + 3735 * data[j + 2] + 16384) >> 15;
  }
  return grey;
}

/** Where a coordinate outside [0, length) is read. */
export type Border = (place: number, length: number) => number;

/** Repeats the last pixel: aaa|abc|ccc. */
export const repeated: Border = (place, length) => Math.min(Math.max(place, 0), length - 1);

/** Mirrors at the centre of the last pixel: cb|abc|ba. */
export const mirrored: Border = (place, length) => {
  if (length === 1) return 0;
  const period = 2 * (length - 1);
  const inPeriod = ((place % period) + period) % period;
  return Math.min(inPeriod, period - inPeriod);
};

export function blur(image: Grey, sigma: number, border: Border): Grey {
  const radius = (Math.round(8 * sigma + 1) | 1) >> 1;
  const kernel = new Float64Array(2 * radius + 1);
  let sum = 0;
  for (let i = -radius; i <= radius; i++) sum += kernel[i + radius] = Math.exp(-((i / sigma) ** 2) / 2);
  for (let i = 0; i < kernel.length; i++) kernel[i] /= sum;

  const { width, height } = image;
  const along = newGrey(width, height);
  const columns = Int32Array.from({ length: width + 2 * radius }, (_, i) => border(i - radius, width));
  const row = new Float32Array(columns.length);
  for (let y = 0; y < height; y++) {
    const start = y * width;
    for (let i = 0; i < row.length; i++) row[i] = image.pixels[start + columns[i]];
    for (let x = 0; x < width; x++) {
      let value = 0;
      for (let i = 0; i < kernel.length; i++) value += kernel[i] * row[x + i];
      along.pixels[start + x] = value;
    }
  }
  const result = newGrey(width, height);
  for (let y = 0; y < height; y++) {
    const to = result.pixels.subarray(y * width, (y + 1) * width);
    for (let i = -radius; i <= radius; i++) {
      const start = border(y + i, height) * width;
      const weight = kernel[i + radius];
      for (let x = 0; x < width; x++) to[x] += weight * along.pixels[start + x];
    }
  }
  return result;
}

/** Bilinear; the edges of the images coincide. */
export function resize(image: Grey, width: number, height: number): Grey {
  const result = newGrey(width, height);
  const x = axis(image.width, width);
  const y = axis(image.height, height);
  for (let row = 0, i = 0; row < height; row++) {
    const above = y.before[row] * image.width;
    const below = y.after[row] * image.width;
    for (let column = 0; column < width; column++, i++) {
      const left = x.before[column];
      const right = x.after[column];
      const top = mix(image.pixels[above + left], image.pixels[above + right], x.weight[column]);
      const bottom = mix(image.pixels[below + left], image.pixels[below + right], x.weight[column]);
      result.pixels[i] = mix(top, bottom, y.weight[row]);
    }
  }
  return result;
}

function axis(from: number, to: number) {
  const before = new Int32Array(to);
  const after = new Int32Array(to);
  const weight = new Float64Array(to);
  for (let i = 0; i < to; i++) {
    const place = Math.min(Math.max(((i + 0.5) * from) / to - 0.5, 0), from - 1);
    before[i] = Math.floor(place);
    after[i] = Math.min(before[i] + 1, from - 1);
    weight[i] = place - before[i];
  }
  return { before, after, weight };
}

function mix(a: number, b: number, weight: number): number {
  return a + (b - a) * weight;
}

/** Means of the areas that become pixels, in whole grey values: OpenCV's INTER_AREA. */
export function shrink(image: Grey, width: number, height: number): Grey {
  const along = newGrey(width, image.height);
  areas(image.width, width, (to, from, share) => {
    for (let y = 0; y < image.height; y++) {
      along.pixels[y * width + to] += share * image.pixels[y * image.width + from];
    }
  });
  const result = newGrey(width, height);
  areas(image.height, height, (to, from, share) => {
    for (let x = 0; x < width; x++) result.pixels[to * width + x] += share * along.pixels[from * width + x];
  });
  return rounded(result);
}

/** Tells for every new pixel of a side which old ones it covers, and by what share of itself. */
function areas(before: number, after: number, tell: (to: number, from: number, share: number) => void): void {
  const length = before / after;
  for (let to = 0; to < after; to++) {
    for (let from = Math.floor(to * length); from < Math.min(before, (to + 1) * length); from++) {
      const covered = Math.min(from + 1, (to + 1) * length) - Math.max(from, to * length);
      tell(to, from, covered / length);
    }
  }
}

/** Whole grey values, as OpenCV's images of bytes have them. */
export function rounded(image: Grey): Grey {
  return { ...image, pixels: image.pixels.map(Math.round) };
}

/** Repeats the border of an image. */
export function pad(image: Grey, margin: number): Grey {
  const result = newGrey(image.width + 2 * margin, image.height + 2 * margin);
  for (let y = 0, i = 0; y < result.height; y++) {
    const start = repeated(y - margin, image.height) * image.width;
    for (let x = 0; x < result.width; x++, i++) {
      result.pixels[i] = image.pixels[start + repeated(x - margin, image.width)];
    }
  }
  return result;
}

/** An image turned to the left by a quarter: NumPy's rot90. */
export function turnedLeft(image: Grey): Grey {
  const result = newGrey(image.height, image.width);
  for (let y = 0, i = 0; y < result.height; y++) {
    for (let x = 0; x < result.width; x++, i++) {
      result.pixels[i] = image.pixels[x * image.width + image.width - 1 - y];
    }
  }
  return result;
}

/** Every second pixel of every second row. */
export function decimate(image: Grey): Grey {
  const result = newGrey(Math.ceil(image.width / 2), Math.ceil(image.height / 2));
  for (let y = 0, i = 0; y < result.height; y++) {
    for (let x = 0; x < result.width; x++, i++) {
      result.pixels[i] = image.pixels[2 * y * image.width + 2 * x];
    }
  }
  return result;
}

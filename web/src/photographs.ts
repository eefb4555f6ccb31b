/** Photographs as the page keeps them: upright, and small enough to be matched quickly. */

export interface Photograph {
  name: string;
  /** Tells photographs apart in the worker. */
  number: number;
  bitmap: ImageBitmap;
  /** Width and height of the file, upright. */
  original: [number, number];
}

const LONGEST_SIDE = 1024; // that is matched
const SMALLEST_SIDE = 32;

let count = 0;

/** An error whose text the person should read. */
export class PhotographError extends Error {}

export async function readPhotograph(file: Blob, name: string): Promise<Photograph> {
  let bitmap: ImageBitmap;
  try {
    bitmap = await createImageBitmap(file, { imageOrientation: "from-image" });
  } catch {
    const looks = file.type.startsWith("image/")
      ? "is damaged, too large, or of a kind this browser cannot show"
      : "is not a picture";
    throw new PhotographError(`“${name}” ${looks}. Choose a JPEG, PNG or WebP file.`);
  }
  const { width, height } = bitmap;
  if (Math.min(width, height) < SMALLEST_SIDE) {
    bitmap.close();
    throw new PhotographError(
      `“${name}” has ${width} × ${height} pixels; at least ${SMALLEST_SIDE} are needed each way.`,
    );
  }
  return { name, number: ++count, bitmap: await reduced(bitmap, LONGEST_SIDE), original: [width, height] };
}

/** A smaller copy of a photograph, or a frame of the camera. */
export async function copyOf(source: ImageBitmap | HTMLVideoElement, name: string, longest: number): Promise<Photograph> {
  const bitmap = await createImageBitmap(source);
  const original: [number, number] = [bitmap.width, bitmap.height];
  return { name, number: ++count, bitmap: await reduced(bitmap, longest), original };
}

/** The picture itself, or a smaller one in its place. */
async function reduced(bitmap: ImageBitmap, longest: number): Promise<ImageBitmap> {
  const scale = longest / Math.max(bitmap.width, bitmap.height);
  if (scale >= 1) return bitmap;
  const smaller = await createImageBitmap(bitmap, {
    resizeWidth: Math.max(1, Math.round(bitmap.width * scale)),
    resizeHeight: Math.max(1, Math.round(bitmap.height * scale)),
    resizeQuality: "high",
  });
  bitmap.close();
  return smaller;
}

/** What to tell about a photograph that is matched at a smaller size. */
export function sizeNote({ bitmap, original: [width, height] }: Photograph): string {
  const size = `${width} × ${height} pixels`;
  if (bitmap.width === width) return size;
  const megapixels = (width * height) / 1e6;
  const many = megapixels >= 1 ? `, ${megapixels.toFixed(megapixels < 10 ? 1 : 0)} megapixels` : "";
  return `${size}${many}; matched at ${bitmap.width} × ${bitmap.height}`;
}

/** Files that a person may choose by mistake, or that cameras write. */

import { crc32, deflateSync } from "node:zlib";

/** A grey PNG of stripes. */
export function png(width, height) {
  const row = Buffer.alloc(width + 1);
  for (let x = 0; x < width; x++) row[x + 1] = (x >> 6) * 37;
  const pixels = Buffer.alloc(row.length * height);
  for (let y = 0; y < height; y++) row.copy(pixels, y * row.length);
  const header = Buffer.alloc(13);
  header.writeUInt32BE(width, 0);
  header.writeUInt32BE(height, 4);
  header[8] = 8; // bits; the colour type 0 is grey
  return Buffer.concat([
    Buffer.from("\x89PNG\r\n\x1a\n", "latin1"),
    chunk("IHDR", header),
    chunk("IDAT", deflateSync(pixels, { level: 1 })),
    chunk("IEND", Buffer.alloc(0)),
  ]);
}

function chunk(type, data) {
  const content = Buffer.concat([Buffer.from(type, "latin1"), data]);
  const result = Buffer.alloc(content.length + 8);
  result.writeUInt32BE(data.length, 0);
  content.copy(result, 4);
  result.writeUInt32BE(crc32(content), content.length + 4);
  return result;
}

/** A JPEG with the EXIF orientation of a phone held upright: to be turned right by 90 degrees. */
export function turnedByExif(jpeg) {
  const tiff = Buffer.from("MM\0\x2a\0\0\0\x08\0\x01\x01\x12\0\x03\0\0\0\x01\0\x06\0\0\0\0\0\0", "latin1");
  const content = Buffer.concat([Buffer.from("Exif\0\0", "latin1"), tiff]);
  const marker = Buffer.from([0xff, 0xe1, 0, content.length + 2]);
  return Buffer.concat([jpeg.subarray(0, 2), marker, content, jpeg.subarray(2)]);
}

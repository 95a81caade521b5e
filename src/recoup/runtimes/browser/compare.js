// The share of pixels that differ between two pictures; 1 where their sizes do.
async ([one, other]) => {
  const JUST_SEEN = 16;
  const read = async (data) => {
    const image = await createImageBitmap(await (await fetch('data:image/png;base64,' + data)).blob());
    const canvas = new OffscreenCanvas(image.width, image.height);
    const pen = canvas.getContext('2d');
    pen.drawImage(image, 0, 0);
    return pen.getImageData(0, 0, image.width, image.height);
  };
  const before = await read(one), now = await read(other);
  if (before.width !== now.width || before.height !== now.height) return 1;
  let differ = 0;
  for (let at = 0; at < before.data.length; at += 4) {
    const apart = (part) => Math.abs(before.data[at + part] - now.data[at + part]) > JUST_SEEN;
    if (apart(0) || apart(1) || apart(2)) differ++;
  }
  return differ / (before.data.length / 4);
}

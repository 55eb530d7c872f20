// A small line of the last minutes. The value is beside it as text, so the line is hidden from screen readers.

const [WIDTH, HEIGHT] = [96, 24];

export function Spark({ values, top }: { values: (number | null)[]; top: number }) {
  const shown = values.slice(-120);
  const place = (value: number) => HEIGHT - 1 - (Math.min(value, top) / (top || 1)) * (HEIGHT - 2);
  let path = '';
  let isDown = false;
  shown.forEach((value, index) => {
    if (value === null) { isDown = false; return; }
    const x = WIDTH - (shown.length - 1 - index) * (WIDTH / 120);
    path += `${isDown ? 'L' : 'M'}${x.toFixed(1)} ${place(value).toFixed(1)}`;
    isDown = true;
  });
  return <svg class="spark" width={WIDTH} height={HEIGHT} viewBox={`0 0 ${WIDTH} ${HEIGHT}`} aria-hidden="true"><path d={path} /></svg>;
}

// A log line as pieces of text with a style. The content of a line is hostile: none of it becomes markup, colours
// become names of classes, every other control sequence is left out, and characters that would change the direction
// of text are shown by their number.

export type Piece = { text: string; look: string };

const ESC = '\u001b';
/** CSI, OSC (to BEL or ST), other strings to ST, and short sequences; also their 8-bit forms. */
const SEQUENCE = /(?:\u001b\[|\u009b)([0-9;:?<=>]*)[ -/]*([@-~])|(?:\u001b\]|\u009d)[^\u0007\u001b\u009c]*(?:\u0007|\u001b\\|\u009c)?|(?:\u001b[PX^_]|[\u0090\u0098\u009e\u009f])[^\u001b\u009c]*(?:\u001b\\|\u009c)?|\u001b[ -/]*[0-~]?/g;
/** Control characters except the tab. */
const CONTROLS = /[\u0000-\u0008\u000a-\u001f\u007f-\u009f]/g;
const TURNS = /[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/g;
/** No log line for people has more pieces than this; the rest is one piece. */
const PIECES_MAX = 500;

type Look = { color: number | null; bold: boolean; dim: boolean; italic: boolean; underline: boolean };
const PLAIN: Look = { color: null, bold: false, dim: false, italic: false, underline: false };

const className = ({ color, bold, dim, italic, underline }: Look): string =>
  [color === null ? '' : `ansi-${color}`, bold ? 'bold' : '', dim ? 'dim' : '', italic ? 'italic' : '', underline ? 'underline' : ''].filter(Boolean).join(' ');

const clean = (text: string): string =>
  text.replace(CONTROLS, '').replace(TURNS, (turn) => `⟨U+${turn.charCodeAt(0).toString(16).toUpperCase().padStart(4, '0')}⟩`);

/** Select Graphic Rendition (ECMA-48, 8.3.117), as far as this page shows it. */
function rendition(look: Look, codes: number[]): Look {
  let next = { ...look };
  for (let index = 0; index < codes.length; index += 1) {
    const code = codes[index] ?? 0;
    if (code === 0) next = { ...PLAIN };
    else if (code === 1) next.bold = true;
    else if (code === 2) next.dim = true;
    else if (code === 3) next.italic = true;
    else if (code === 4) next.underline = true;
    else if (code === 22) { next.bold = false; next.dim = false; } else if (code === 23) next.italic = false;
    else if (code === 24) next.underline = false;
    else if (code >= 30 && code <= 37) next.color = code - 30;
    else if (code >= 90 && code <= 97) next.color = code - 82;
    else if (code === 39) next.color = null;
    else if (code === 38 || code === 48) {
      const isIndexed = codes[index + 1] === 5;
      const color = codes[index + 2] ?? 16;
      if (code === 38) next.color = isIndexed && color < 16 ? color : null;
      index += isIndexed ? 2 : 4;
    }
  }
  return next;
}

export function pieces(line: string): Piece[] {
  if (!line.includes(ESC) && !/[\u0080-\u009f]/.test(line)) return [{ text: clean(line), look: '' }];
  const found: Piece[] = [];
  let [look, from] = [PLAIN, 0];
  const add = (end: number) => {
    const text = clean(line.slice(from, end));
    if (text !== '') found.push({ text, look: className(look) });
  };
  for (const match of line.matchAll(SEQUENCE)) {
    if (found.length >= PIECES_MAX) break;
    add(match.index);
    from = match.index + match[0].length;
    if (match[2] === 'm' && /^[0-9;]*$/.test(match[1] ?? '')) look = rendition(look, (match[1] ?? '').split(';').map(Number));
  }
  found.push({ text: clean(line.slice(from).replace(SEQUENCE, '')), look: className(look) });
  return found.filter(({ text }) => text !== '');
}

/** The text without styles, for searching. */
export const plain = (line: string): string => pieces(line).map(({ text }) => text).join('');

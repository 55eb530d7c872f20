// A table; numbers to the right, wide ones scroll by themselves so that the page does not.

import type { Scalar } from '../document';
import { cell } from '../format';

/** Texts up to this length are not broken into lines. */
const SHORT = 24;

type Props = { columns: string[]; rows: Scalar[][]; caption: string; showCaption?: boolean; emphasis?: number };

export function DataTable({ columns, rows, caption, showCaption = false, emphasis }: Props) {
  const isNumeric = columns.map((_, index) => rows.some((row) => typeof row[index] === 'number') || rows.every((row) => /^[\d.,–\s]*$/.test(cell(row[index]))));
  return (
    <div class="scroll" tabIndex={0} role="region" aria-label={caption}>
      <table>
        <caption class={showCaption ? '' : 'hidden'}>{caption}</caption>
        <thead>
          <tr>{columns.map((column, index) => <th key={index} scope="col" class={isNumeric[index] ? 'number' : ''}>{column}</th>)}</tr>
        </thead>
        <tbody>
          {rows.map((row, rowIndex) => (
            <tr key={rowIndex} class={rowIndex === emphasis ? 'emphasis' : ''}>
              {columns.map((_, index) => {
                const content = cell(row[index]);
                const name = isNumeric[index] ? 'number' : content.length <= SHORT ? 'short' : '';
                return index === 0 ? <th key={index} scope="row" class={name}>{content}</th> : <td key={index} class={name}>{content}</td>;
              })}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

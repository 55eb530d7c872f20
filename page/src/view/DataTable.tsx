// A table with numbers aligned to the right. Wide tables scroll, so that the page does not.

import type { Scalar } from '../document';
import { cell } from '../format';
import { Words } from './Words';

/** Texts up to this length are not broken into lines. */
const SHORT = 24;
/** On narrow screens, a table with a longer text shows each row as a card: as columns, its texts would be a few words wide. */
const LONG = 40;

type Props = { columns: string[]; rows: Scalar[][]; caption: string; showCaption?: boolean; emphasis?: number };

export function DataTable({ columns, rows, caption, showCaption = false, emphasis }: Props) {
  const isNumeric = columns.map((_, index) => rows.some((row) => typeof row[index] === 'number') || rows.every((row) => /^[\d.,–\s]*$/.test(cell(row[index]))));
  const isLong = rows.some((row) => row.some((value) => cell(value).length > LONG));
  // As cards the rows are blocks; the roles keep the table a table for screen readers.
  return (
    <div class="scroll" tabIndex={0} role="region" aria-label={caption}>
      <table class={isLong ? 'long' : ''} role="table">
        <caption class={showCaption ? '' : 'hidden'}>{caption}</caption>
        <thead>
          <tr role="row">{columns.map((column, index) => <th key={index} scope="col" role="columnheader" class={isNumeric[index] ? 'number' : ''}>{column}</th>)}</tr>
        </thead>
        <tbody>
          {rows.map((row, rowIndex) => (
            <tr key={rowIndex} role="row" class={rowIndex === emphasis ? 'emphasis' : ''}>
              {columns.map((_, index) => {
                const content = cell(row[index]);
                const name = isNumeric[index] ? 'number' : content.length <= SHORT ? 'short' : '';
                const label = columns[index] || undefined;
                return index === 0
                  ? <th key={index} scope="row" role="rowheader" class={name} data-label={label}><span><Words text={content} /></span></th>
                  : <td key={index} role="cell" class={name} data-label={label}><span><Words text={content} /></span></td>;
              })}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

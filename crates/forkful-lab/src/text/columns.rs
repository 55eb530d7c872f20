//! A table without rules; columns are aligned by their widest cell.

/// Alignment of a cell's text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Align {
    Left,
    Right,
}

#[derive(Debug)]
pub(crate) struct Columns<const N: usize> {
    aligns: [Align; N],
    rows: Vec<[String; N]>,
}

impl<const N: usize> Columns<N> {
    /// Creates a table with these column titles.
    pub(crate) fn new(titles: &[(&str, Align); N]) -> Self {
        Self { aligns: titles.map(|(_, align)| align), rows: vec![titles.map(|(title, _)| title.to_owned())] }
    }

    pub(crate) fn row(&mut self, cells: [String; N]) {
        self.rows.push(cells);
    }

    /// The table as lines. A column whose cells are all empty is left out.
    pub(crate) fn text(&self) -> String {
        let is_used = |column: usize| self.rows.iter().skip(1).any(|row| !row[column].is_empty());
        let columns: Vec<usize> = (0..N).filter(|column| is_used(*column)).collect();
        let width =
            |column: usize| self.rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
        let mut text = String::new();
        for row in &self.rows {
            let cells: Vec<String> = columns
                .iter()
                .map(|column| {
                    let pad = " ".repeat(width(*column) - row[*column].chars().count());
                    match self.aligns[*column] {
                        Align::Left => format!("{}{pad}", row[*column]),
                        Align::Right => format!("{pad}{}", row[*column]),
                    }
                })
                .collect();
            text.push_str(cells.join("  ").trim_end());
            text.push('\n');
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let mut table = Columns::new(&[("name", Align::Left), ("unused", Align::Left), ("n", Align::Right)]);
        table.row(["a".to_owned(), String::new(), "1000".to_owned()]);
        table.row(["longer".to_owned(), String::new(), "1".to_owned()]);
        assert_eq!(table.text(), "name       n\na       1000\nlonger     1\n");
    }
}

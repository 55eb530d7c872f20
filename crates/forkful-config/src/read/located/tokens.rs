//! JavaScript and TypeScript as tokens, as far as it takes to find object literals. A text that is not understood has
//! none, so that nothing is said of it.

use std::ops::Range;

/// A piece of a script. Comments and white space are left out.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Token {
    pub(super) kind: Kind,
    pub(super) bytes: Range<usize>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// A name, a keyword, `true`.
    Word,
    Number,
    /// In quotes, or a template without `${}`.
    Text,
    /// A template with `${}`.
    Template,
    Regex,
    /// One character, such as `{`.
    Punctuation(u8),
}

/// Words after which a slash begins a regular expression.
const BEFORE_REGEX: [&str; 10] =
    ["return", "typeof", "case", "in", "of", "delete", "void", "throw", "new", "await"];

/// The tokens of a script, and for each bracket the index of its partner.
pub(super) struct Tokens {
    pub(super) all: Vec<Token>,
    partners: Vec<Option<usize>>,
}

impl Tokens {
    /// `None` where a bracket, a text or a comment is not closed.
    pub(super) fn of(text: &str) -> Option<Self> {
        let mut scanner = Scanner { bytes: text.as_bytes(), at: 0 };
        let mut all: Vec<Token> = Vec::new();
        while scanner.skip_blanks()? {
            let start = scanner.at;
            let regex_may_begin = all.last().is_none_or(|last| precedes_regex(last, text));
            let kind = scanner.token(regex_may_begin)?;
            all.push(Token { kind, bytes: start..scanner.at });
        }
        let partners = partners(&all)?;
        Some(Self { all, partners })
    }

    pub(super) fn is(&self, at: usize, punctuation: u8) -> bool {
        self.all.get(at).is_some_and(|token| token.kind == Kind::Punctuation(punctuation))
    }

    /// The other bracket of a pair.
    pub(super) fn partner(&self, at: usize) -> Option<usize> {
        self.partners.get(at).copied().flatten()
    }
}

fn precedes_regex(last: &Token, text: &str) -> bool {
    match last.kind {
        Kind::Punctuation(byte) => !b")]}".contains(&byte),
        Kind::Word => BEFORE_REGEX.contains(&&text[last.bytes.clone()]),
        Kind::Number | Kind::Text | Kind::Template | Kind::Regex => false,
    }
}

fn partners(all: &[Token]) -> Option<Vec<Option<usize>>> {
    let mut partners = vec![None; all.len()];
    let mut open: Vec<(u8, usize)> = Vec::new();
    for (at, token) in all.iter().enumerate() {
        let Kind::Punctuation(byte) = token.kind else { continue };
        let closing = match byte {
            b'{' => b'}',
            b'[' => b']',
            b'(' => b')',
            b'}' | b']' | b')' => {
                let (expected, first) = open.pop()?;
                if expected != byte {
                    return None;
                }
                partners[first] = Some(at);
                partners[at] = Some(first);
                continue;
            }
            _ => continue,
        };
        open.push((closing, at));
    }
    open.is_empty().then_some(partners)
}

struct Scanner<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Scanner<'_> {
    fn byte(&self, ahead: usize) -> Option<u8> {
        self.bytes.get(self.at + ahead).copied()
    }

    /// Goes to the next token; says whether there is one.
    fn skip_blanks(&mut self) -> Option<bool> {
        loop {
            match (self.byte(0), self.byte(1)) {
                (None, _) => return Some(false),
                (Some(b'/'), Some(b'/')) => self.skip_line(),
                (Some(b'#'), Some(b'!')) if self.at == 0 => self.skip_line(),
                (Some(b'/'), Some(b'*')) => {
                    let end = self.bytes[self.at + 2..].windows(2).position(|pair| pair == b"*/")?;
                    self.at += end + 4;
                }
                (Some(byte), _) if byte.is_ascii_whitespace() => self.at += 1,
                _ => return Some(true),
            }
        }
    }

    fn skip_line(&mut self) {
        let rest = &self.bytes[self.at..];
        self.at += rest.iter().position(|byte| *byte == b'\n').unwrap_or(rest.len());
    }

    fn token(&mut self, regex_may_begin: bool) -> Option<Kind> {
        let first = self.byte(0)?;
        match first {
            b'"' | b'\'' => self.text(first),
            b'`' => self.template(),
            b'/' if regex_may_begin => self.regex(),
            b'0'..=b'9' => {
                self.skip_while(|byte| byte.is_ascii_alphanumeric() || byte == b'.' || byte == b'_');
                Some(Kind::Number)
            }
            _ if is_of_word(first) => {
                self.skip_while(is_of_word);
                Some(Kind::Word)
            }
            _ => {
                self.at += 1;
                Some(Kind::Punctuation(first))
            }
        }
    }

    fn skip_while(&mut self, is_part: impl Fn(u8) -> bool) {
        while self.byte(0).is_some_and(&is_part) {
            self.at += 1;
        }
    }

    fn text(&mut self, quote: u8) -> Option<Kind> {
        self.at += 1;
        loop {
            match self.byte(0)? {
                b'\n' => return None,
                b'\\' => self.at += 2,
                byte => {
                    self.at += 1;
                    if byte == quote {
                        return Some(Kind::Text);
                    }
                }
            }
        }
    }

    /// With what stands in its `${}`, which is passed over by counting braces outside of texts.
    fn template(&mut self) -> Option<Kind> {
        self.at += 1;
        let mut kind = Kind::Text;
        loop {
            match (self.byte(0)?, self.byte(1)) {
                (b'\\', _) => self.at += 2,
                (b'`', _) => {
                    self.at += 1;
                    return Some(kind);
                }
                (b'$', Some(b'{')) => {
                    kind = Kind::Template;
                    self.at += 2;
                    self.substitution()?;
                }
                _ => self.at += 1,
            }
        }
    }

    fn substitution(&mut self) -> Option<()> {
        let mut depth = 1_usize;
        while depth > 0 {
            match self.byte(0)? {
                quote @ (b'"' | b'\'') => {
                    self.text(quote)?;
                }
                // A template within a template is rare in a configuration.
                b'`' => return None,
                byte => {
                    depth = if byte == b'{' { depth + 1 } else { depth - usize::from(byte == b'}') };
                    self.at += 1;
                }
            }
        }
        Some(())
    }

    fn regex(&mut self) -> Option<Kind> {
        self.at += 1;
        let mut is_class = false;
        loop {
            match self.byte(0)? {
                b'\n' => return None,
                b'\\' => self.at += 2,
                byte => {
                    self.at += 1;
                    match byte {
                        b'[' => is_class = true,
                        b']' => is_class = false,
                        b'/' if !is_class => break,
                        _ => {}
                    }
                }
            }
        }
        self.skip_while(is_of_word);
        Some(Kind::Regex)
    }
}

fn is_of_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'$') || byte >= 0x80
}

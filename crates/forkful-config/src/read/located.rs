//! Where the values of a JavaScript configuration stand in its text. The values come from Node.js; here they are looked
//! for among the object literals that the script exports.
//!
//! **Invariant:** a place is the right one or none. A literal counts only where it says what Node.js has found; values that
//! a function makes, that are spread from elsewhere, or that are assigned to later have no place.

mod tokens;

use std::collections::BTreeSet;
use std::ops::Range;

use crate::tree::{Lines, Node, Value};
use tokens::{Kind, Tokens};

/// Literals within literals.
const DEPTH_MAX: usize = 32;
/// Tokens of a type between a name and its value, as in `const config: Config = …`.
const TYPE_TOKENS_MAX: usize = 16;

/// Notes in the tree of a script's result where its values stand.
pub(crate) fn locate(tree: &mut Node, text: &str) {
    let Some(tokens) = Tokens::of(text) else { return };
    let script = Script { text, tokens, lines: Lines::new(text) };
    let mut exports = script.exports();
    // A script with more than one says which by its logic.
    if let (Some((key, literal)), None) = (exports.pop(), exports.pop()) {
        let assigned = script.assigned();
        let finder = Finder { script: &script, assigned };
        match key {
            None => {
                let _known = finder.annotate(tree, &literal, 0);
            }
            Some(key) => {
                if let Value::Table(entries) = &mut tree.value
                    && let Some(entry) = entries.iter_mut().find(|entry| entry.key == key)
                {
                    let _known = finder.annotate(&mut entry.node, &literal, 0);
                }
            }
        }
    }
}

/// An expression: its first token and the one after its last.
type Expression = Range<usize>;

/// A property of an object literal.
struct Property {
    key: String,
    /// The token of the key.
    at: usize,
    value: Expression,
    /// Whether a later part of the literal may replace it.
    may_be_replaced: bool,
}

struct Script<'a> {
    text: &'a str,
    tokens: Tokens,
    lines: Lines<'a>,
}

impl Script<'_> {
    fn word(&self, at: usize) -> &str {
        match self.tokens.all.get(at) {
            Some(token) if token.kind == Kind::Word => &self.text[token.bytes.clone()],
            _ => "",
        }
    }

    /// What is exported: all of it, or by a name.
    fn exports(&self) -> Vec<(Option<&'static str>, Expression)> {
        let mut found = Vec::new();
        for at in 0..self.tokens.all.len() {
            let is_member = at > 0 && self.tokens.is(at - 1, b'.');
            if self.word(at) == "export" && self.word(at + 1) == "default" {
                found.push((None, self.expression(at + 2)));
            } else if self.word(at) == "module"
                && !is_member
                && self.word(at + 2) == "exports"
                && self.assigns(at + 3)
            {
                found.push((None, self.expression(at + 4)));
            } else if self.word(at) == "exports"
                && !is_member
                && self.word(at + 2) == "apps"
                && self.assigns(at + 3)
            {
                found.push((Some("apps"), self.expression(at + 4)));
            } else if self.word(at) == "export" && self.word(at + 2) == "apps" {
                found.extend(self.declared(at + 2).map(|value| (Some("apps"), value)));
            }
        }
        found
    }

    /// Whether this is a plain `=`.
    fn assigns(&self, at: usize) -> bool {
        let touches = |next: u8| {
            let end = |at: usize| self.tokens.all.get(at).map(|token| token.bytes.end);
            self.tokens.is(at + 1, next) && end(at + 1) == end(at).map(|end| end + 1)
        };
        self.tokens.is(at, b'=') && !touches(b'=') && !touches(b'>')
    }

    /// The expression that begins here: up to a comma, a semicolon or a closing bracket.
    fn expression(&self, from: usize) -> Expression {
        let mut at = from;
        while let Some(token) = self.tokens.all.get(at) {
            match token.kind {
                Kind::Punctuation(b',' | b';' | b')' | b']' | b'}') => break,
                Kind::Punctuation(b'(' | b'[' | b'{') => {
                    let Some(partner) = self.tokens.partner(at) else { break };
                    at = partner + 1;
                    // A statement may end without a semicolon.
                    if self.is_statement(at) {
                        break;
                    }
                }
                _ => at += 1,
            }
        }
        from..at
    }

    fn is_statement(&self, at: usize) -> bool {
        ["const", "let", "var", "export", "module", "function", "import", "if", "for"]
            .contains(&self.word(at))
    }

    /// The value of a declaration whose name is this token.
    fn declared(&self, name: usize) -> Option<Expression> {
        let equals = (name + 1..=name + 1 + TYPE_TOKENS_MAX).find(|at| self.assigns(*at))?;
        let has_type = self.tokens.is(name + 1, b':');
        (equals == name + 1 || has_type).then(|| self.expression(equals + 1))
    }

    /// The value of a variable, if it is declared once and never assigned to.
    fn variable(&self, name: &str) -> Option<Expression> {
        let all = 0..self.tokens.all.len();
        let named: Vec<usize> = all.filter(|at| self.word(*at) == name).collect();
        let is_declared = |at: &usize| *at > 0 && ["const", "let", "var"].contains(&self.word(*at - 1));
        let mut declared = named.iter().copied().filter(is_declared);
        let (first, None) = (declared.next()?, declared.next()) else { return None };
        let is_assigned = named.iter().any(|at| {
            let is_member = *at > 0 && self.tokens.is(*at - 1, b'.');
            *at != first && !is_member && self.assigns(*at + 1)
        });
        if is_assigned { None } else { self.declared(first) }
    }

    /// Names of properties that are assigned to somewhere, as in `app.name = …`.
    fn assigned(&self) -> BTreeSet<&str> {
        let members = (1..self.tokens.all.len()).filter(|at| self.tokens.is(at - 1, b'.'));
        let assigned = members.filter(|at| {
            // With `+=` and its like.
            self.assigns(at + 1) || self.tokens.is(at + 2, b'=') && !self.tokens.is(at + 1, b'=')
        });
        assigned.map(|at| self.word(at)).collect()
    }

    /// The brackets of an expression that is a literal, also behind a name as in `defineConfig({ … })`, in parentheses, or
    /// before `satisfies Config`.
    fn literal(&self, expression: &Expression, open: u8) -> Option<(usize, usize)> {
        let mut start = expression.start;
        let mut end = expression.end;
        if self.tokens.is(start, b'(') || !self.word(start).is_empty() && self.tokens.is(start + 1, b'(') {
            start += usize::from(!self.tokens.is(start, b'('));
            let close = self.tokens.partner(start)?;
            let is_all = close + 1 == end;
            let inner = self.expression(start + 1);
            // A single argument.
            if !is_all || inner.end != close {
                return None;
            }
            (start, end) = (inner.start, inner.end);
        }
        let close = self.tokens.is(start, open).then(|| self.tokens.partner(start)).flatten()?;
        let is_all = close + 1 == end || ["as", "satisfies"].contains(&self.word(close + 1));
        is_all.then_some((start, close))
    }

    /// The properties of an object literal; `None` where a part of it is not understood.
    fn properties(&self, (open, close): (usize, usize)) -> Option<Vec<Property>> {
        let mut properties: Vec<Property> = Vec::new();
        let mut at = open + 1;
        while at < close {
            let is_spread = self.tokens.is(at, b'.');
            let is_computed = self.tokens.is(at, b'[');
            if is_spread || is_computed {
                properties.iter_mut().for_each(|property| property.may_be_replaced = true);
                at = self.expression(at).end + 1;
                continue;
            }
            let token = self.tokens.all.get(at)?;
            let key = match token.kind {
                Kind::Word => self.word(at).to_owned(),
                Kind::Text => self.string(at)?,
                _ => return None,
            };
            let value = if self.tokens.is(at + 1, b':') {
                self.expression(at + 2)
            } else if at + 1 == close || self.tokens.is(at + 1, b',') {
                at..at + 1
            } else {
                // A method or an accessor.
                return None;
            };
            if !(value.end == close || self.tokens.is(value.end, b',')) {
                return None;
            }
            let end = value.end;
            properties.push(Property { key, at, value, may_be_replaced: false });
            at = end + 1;
        }
        Some(properties)
    }

    /// The elements of an array literal; `None` where their number is not known.
    fn elements(&self, (open, close): (usize, usize)) -> Option<Vec<Expression>> {
        let mut elements = Vec::new();
        let mut at = open + 1;
        while at < close {
            let element = self.expression(at);
            if element.is_empty() || self.tokens.is(at, b'.') {
                return None;
            }
            at = element.end + 1;
            elements.push(element);
        }
        Some(elements)
    }

    /// The value of a text without escapes.
    fn string(&self, at: usize) -> Option<String> {
        let token = self.tokens.all.get(at).filter(|token| token.kind == Kind::Text)?;
        let inner = &self.text[token.bytes.start + 1..token.bytes.end - 1];
        (!inner.contains('\\')).then(|| inner.to_owned())
    }

    /// Where an expression stands.
    fn bytes(&self, expression: &Expression) -> Option<Range<usize>> {
        let first = self.tokens.all.get(expression.start)?;
        let last = self.tokens.all.get(expression.end.checked_sub(1)?)?;
        Some(first.bytes.start..last.bytes.end)
    }
}

/// What Node.js has found contradicts the text.
struct Contradiction;

struct Finder<'a> {
    script: &'a Script<'a>,
    /// Properties whose values may have come later.
    assigned: BTreeSet<&'a str>,
}

impl Finder<'_> {
    /// Notes where a node and what is in it stand. Nothing is noted below a contradiction.
    fn annotate(&self, node: &mut Node, expression: &Expression, depth: usize) -> Result<(), Contradiction> {
        if depth > DEPTH_MAX {
            return Ok(());
        }
        let script = self.script;
        let is_name = expression.len() == 1 && !script.word(expression.start).is_empty();
        if is_name && let Some(value) = script.variable(script.word(expression.start)) {
            return self.annotate(node, &value, depth + 1);
        }
        self.check_scalar(node, expression)?;
        let found = node.clone();
        let noted = self.annotate_parts(node, expression, depth);
        if noted.is_err() {
            *node = found;
        }
        noted?;
        node.at = script.bytes(expression).map(|bytes| script.lines.spot(bytes));
        Ok(())
    }

    fn annotate_parts(
        &self,
        node: &mut Node,
        expression: &Expression,
        depth: usize,
    ) -> Result<(), Contradiction> {
        let script = self.script;
        match &mut node.value {
            Value::Table(entries) => {
                let brackets = script.literal(expression, b'{');
                let Some(properties) = brackets.and_then(|brackets| script.properties(brackets)) else {
                    return Ok(());
                };
                for entry in entries {
                    let mut same = properties.iter().filter(|property| property.key == entry.key);
                    let (Some(property), None) = (same.next(), same.next()) else { continue };
                    if property.may_be_replaced || self.assigned.contains(entry.key.as_str()) {
                        continue;
                    }
                    self.annotate(&mut entry.node, &property.value, depth + 1)?;
                    entry.at =
                        script.bytes(&(property.at..property.at + 1)).map(|bytes| script.lines.spot(bytes));
                }
            }
            Value::List(items) => {
                let brackets = script.literal(expression, b'[');
                let Some(elements) = brackets.and_then(|brackets| script.elements(brackets)) else {
                    return Ok(());
                };
                if elements.len() != items.len() {
                    return Err(Contradiction);
                }
                for (item, element) in items.iter_mut().zip(&elements) {
                    // Another order, or a function that has changed one: nothing of it is known.
                    let _known = self.annotate(item, element, depth + 1);
                }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::Text(_) => {}
        }
        Ok(())
    }

    /// A plain value in the text must be what was found.
    fn check_scalar(&self, node: &Node, expression: &Expression) -> Result<(), Contradiction> {
        let script = self.script;
        let Some(token) = script.tokens.all.get(expression.start).filter(|_| expression.len() == 1) else {
            return Ok(());
        };
        let written = &script.text[token.bytes.clone()];
        let agrees = match (token.kind, &node.value) {
            (Kind::Text, Value::Text(found)) => {
                script.string(expression.start).is_none_or(|text| text == *found)
            }
            (Kind::Number, Value::Number(found)) => written
                .replace('_', "")
                .parse::<f64>()
                .is_ok_and(|number| number.total_cmp(&found.value).is_eq()),
            (Kind::Word, Value::Bool(found)) => {
                written == if *found { "true" } else { "false" } || !is_constant(written)
            }
            (Kind::Word, Value::Null) => written == "null" || !is_constant(written),
            (Kind::Word, _) => !is_constant(written),
            (Kind::Template, Value::Text(_)) => true,
            (Kind::Text | Kind::Number | Kind::Template | Kind::Regex, _) => false,
            (Kind::Punctuation(_), _) => true,
        };
        if agrees { Ok(()) } else { Err(Contradiction) }
    }
}

fn is_constant(word: &str) -> bool {
    ["true", "false", "null"].contains(&word)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value as Json, json};

    use super::*;

    /// The texts at the places of a key path, such as `apps.0.name`: of the key and of the value.
    fn found(text: &str, result: &Json, path: &str) -> (Option<String>, Option<String>) {
        let mut tree = Node::from_json(result);
        locate(&mut tree, text);
        let shown = |spot: Option<crate::tree::Spot>| spot.map(|spot| text[spot.start..spot.end].to_owned());
        let mut key = None;
        let mut node = &tree;
        for part in path.split('.') {
            node = match &node.value {
                Value::List(items) => {
                    key = None;
                    &items[part.parse::<usize>().unwrap()]
                }
                _ => {
                    let entry = node.get(part).unwrap();
                    key = shown(entry.at);
                    &entry.node
                }
            };
        }
        (key, shown(node.at))
    }

    fn both(key: &str, value: &str) -> (Option<String>, Option<String>) {
        (Some(key.to_owned()), Some(value.to_owned()))
    }

    const NOTHING: (Option<String>, Option<String>) = (None, None);

    #[test]
    fn values_of_exported_literals_have_places() {
        let result = json!({ "apps": [{ "name": "api", "instances": "two", "env": { "A-B": 1 } }] });
        let body = "{ // a comment { \n apps: [{ name: 'api', instances: \"two\", env: { 'A-B': 1 } }] }";
        for script in [
            format!("module.exports = {body};"),
            format!("/* {{ }} */ export default {body}"),
            format!(
                "const {{ x }} = require('y')\nconst re = /[/}}]/g\nmodule.exports = defineConfig({body})"
            ),
            format!(
                "import type {{ Config }} from 'forkful';\nconst config: Config = {body};\nexport default config;"
            ),
            format!("export default {body} satisfies Config"),
        ] {
            assert_eq!(found(&script, &result, "apps.0.instances"), both("instances", "\"two\""), "{script}");
            assert_eq!(found(&script, &result, "apps.0.env.A-B"), both("'A-B'", "1"), "{script}");
        }
    }

    #[test]
    fn names_and_expressions_have_the_places_where_they_are_given() {
        let result = json!({ "apps": [{ "name": "api", "instances": "2" }] });
        let script =
            "const api = { name: 'api', instances: process.env.COUNT || '2' };\nexports.apps = [api];";
        assert_eq!(found(script, &result, "apps.0.instances"), both("instances", "process.env.COUNT || '2'"));
    }

    #[test]
    fn a_value_that_may_come_from_elsewhere_has_no_place() {
        let result = json!({ "apps": [{ "name": "a", "port": 2 }, { "name": "b", "port": 2 }] });
        for script in [
            // Another order, and another number of them.
            "module.exports = { apps: [{ name: 'b', port: 2 }, { name: 'a', port: 2 }] }; module.exports.apps.reverse()",
            "module.exports = { apps: [...more, { name: 'a', port: 2 }] }",
            "module.exports = { apps: ['a', 'b'].map((name) => ({ name, port: 2 })) }",
            // A later value.
            "module.exports = { apps: [{ name: 'a', port: 2, ...base }, { name: 'b', port: 2 }] }",
            "const c = { apps: [{ name: 'a', port: 1 + 1 }, { name: 'b', port: 2 }] }; c.apps[0].port = 2; module.exports = c",
            "module.exports = { apps: [{ name: 'a', port: 1 }, { name: 'b', port: 2 }] }",
            // Which of them?
            "if (x) module.exports = { apps: [{ name: 'a', port: 2 }] }; else module.exports = { apps: [{ name: 'a', port: 2 }] }",
            "module.exports = { apps: [{ name: 'a', port: 2, port: 2 }, { name: 'b', port: 2 }] }",
            // Not understood.
            "module.exports = { apps: [{ name: 'a', port: 2 }",
            "module.exports = () => ({ apps: [{ name: 'a', port: 2 }, { name: 'b', port: 2 }] })",
        ] {
            assert_eq!(found(script, &result, "apps.0.port"), NOTHING, "{script}");
        }
    }
}

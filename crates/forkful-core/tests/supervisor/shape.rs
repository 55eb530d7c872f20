//! The shape of a type as serde sees it: each struct with its fields and each enum with its variants, found by reading
//! values that are made up, once for each variant.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde::de::value::{Error, StrDeserializer};
use serde::de::{
    Deserialize, DeserializeSeed, Deserializer, EnumAccess, IntoDeserializer as _, MapAccess, SeqAccess,
    VariantAccess, Visitor,
};

/// A text that is a name, a date format and a cron pattern.
const TEXT: &str = "0 3 * * *";

/// The shape of some types.
#[derive(Debug, Default)]
pub(crate) struct Shape {
    structs: BTreeMap<&'static str, String>,
    enums: BTreeMap<&'static str, BTreeMap<&'static str, String>>,
    /// How many variants each enum has, and which comes next.
    variants: BTreeMap<&'static str, (usize, usize)>,
}

impl Shape {
    /// Adds a type, and all that it is made of.
    pub(crate) fn add<'de, T: Deserialize<'de>>(&mut self) {
        loop {
            T::deserialize(Reader { shape: self, seen: &mut String::new() }).expect("a value can be made up");
            let is_whole = |name, count: &(usize, usize)| self.enums[name].len() == count.0;
            if self.variants.iter().all(|(name, count)| is_whole(name, count)) {
                return;
            }
        }
    }

    /// One line for each struct and each variant.
    pub(crate) fn text(&self) -> String {
        let mut text = String::new();
        for (name, fields) in &self.structs {
            writeln!(text, "{name} {fields}").unwrap();
        }
        for (name, variants) in &self.enums {
            for (variant, content) in variants {
                writeln!(text, "{name}::{variant} {content}").unwrap();
            }
        }
        text
    }
}

/// Makes up a value, and notes its type.
struct Reader<'a> {
    shape: &'a mut Shape,
    seen: &'a mut String,
}

impl Reader<'_> {
    fn next<'de, T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<T::Value, Error> {
        seed.deserialize(Reader { shape: self.shape, seen: self.seen })
    }

    /// Fields in braces.
    fn fields<'de, V: Visitor<'de>>(
        &mut self,
        names: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        self.seen.push('{');
        let reader = Reader { shape: self.shape, seen: self.seen };
        let value = visitor.visit_map(Fields { reader, names })?;
        self.seen.push('}');
        Ok(value)
    }
}

macro_rules! plain {
    ($($method:ident, $visit:ident, $type:literal, $value:expr);+ $(;)?) => {
        $(fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
            self.seen.push_str($type);
            visitor.$visit($value)
        })+
    };
}

macro_rules! no {
    ($($method:ident),+) => {
        $(fn $method<V: Visitor<'de>>(self, _: V) -> Result<V::Value, Error> {
            unimplemented!(stringify!($method))
        })+
    };
}

impl<'de> Deserializer<'de> for Reader<'_> {
    type Error = Error;

    plain! {
        deserialize_bool, visit_bool, "bool", true;
        deserialize_u8, visit_u8, "u8", 1;
        deserialize_u16, visit_u16, "u16", 1;
        deserialize_u32, visit_u32, "u32", 1;
        deserialize_u64, visit_u64, "u64", 1;
        deserialize_i32, visit_i32, "i32", 1;
        deserialize_i64, visit_i64, "i64", 1;
        deserialize_f64, visit_f64, "f64", 1.0;
        deserialize_str, visit_str, "text", TEXT;
        deserialize_string, visit_str, "text", TEXT;
    }
    no!(
        deserialize_any,
        deserialize_i8,
        deserialize_i16,
        deserialize_f32,
        deserialize_char,
        deserialize_bytes
    );
    no!(deserialize_byte_buf, deserialize_identifier, deserialize_ignored_any, deserialize_unit);

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        self.seen.push('?');
        visitor.visit_some(Reader { shape: self.shape, seen: self.seen })
    }

    fn deserialize_unit_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, Error> {
        self.deserialize_unit(visitor)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, Error> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        self.seen.push('[');
        let value =
            visitor.visit_seq(Row { reader: Reader { shape: self.shape, seen: self.seen }, left: 1 })?;
        self.seen.push(']');
        Ok(value)
    }

    fn deserialize_tuple<V: Visitor<'de>>(self, left: usize, visitor: V) -> Result<V::Value, Error> {
        self.seen.push('(');
        let value = visitor.visit_seq(Row { reader: Reader { shape: self.shape, seen: self.seen }, left })?;
        self.seen.push(')');
        Ok(value)
    }

    fn deserialize_tuple_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        len: usize,
        visitor: V,
    ) -> Result<V::Value, Error> {
        self.deserialize_tuple(len, visitor)
    }

    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        self.seen.push('<');
        let value =
            visitor.visit_map(Row { reader: Reader { shape: self.shape, seen: self.seen }, left: 1 })?;
        self.seen.push('>');
        Ok(value)
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        names: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        let mut fields = String::new();
        let value = Reader { shape: self.shape, seen: &mut fields }.fields(names, visitor)?;
        self.seen.push_str(name);
        let before = self.shape.structs.insert(name, fields.clone());
        assert!(before.is_none_or(|before| before == fields), "two types have the name {name}");
        Ok(value)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        let (count, next) = self.shape.variants.entry(name).or_insert((variants.len(), 0));
        assert_eq!(*count, variants.len(), "two types have the name {name}");
        let variant = variants[*next];
        *next = (*next + 1) % variants.len();
        let mut content = String::new();
        let value = visitor.visit_enum(Variant {
            name: variant,
            reader: Reader { shape: self.shape, seen: &mut content },
        })?;
        self.seen.push_str(name);
        let before = self.shape.enums.entry(name).or_default().insert(variant, content.clone());
        assert!(before.is_none_or(|before| before == content), "two types have the name {name}");
        Ok(value)
    }
}

struct Row<'a> {
    reader: Reader<'a>,
    left: usize,
}

impl<'de> SeqAccess<'de> for Row<'_> {
    type Error = Error;
    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>, Error> {
        if self.left == 0 {
            return Ok(None);
        }
        self.left -= 1;
        let value = self.reader.next(seed)?;
        if self.left > 0 {
            self.reader.seen.push_str(", ");
        }
        Ok(Some(value))
    }
}

impl<'de> MapAccess<'de> for Row<'_> {
    type Error = Error;
    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, Error> {
        self.next_element_seed(seed)
    }
    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Error> {
        self.reader.seen.push_str(": ");
        self.reader.next(seed)
    }
}

struct Fields<'a> {
    reader: Reader<'a>,
    names: &'static [&'static str],
}

impl<'de> MapAccess<'de> for Fields<'_> {
    type Error = Error;
    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, Error> {
        let Some((first, rest)) = self.names.split_first() else { return Ok(None) };
        self.names = rest;
        write!(self.reader.seen, " {first}: ").unwrap();
        let name: StrDeserializer<'_, Error> = first.into_deserializer();
        seed.deserialize(name).map(Some)
    }
    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Error> {
        let value = self.reader.next(seed);
        self.reader.seen.push(if self.names.is_empty() { ' ' } else { ',' });
        value
    }
}

struct Variant<'a> {
    name: &'static str,
    reader: Reader<'a>,
}

impl<'de, 'a> EnumAccess<'de> for Variant<'a> {
    type Error = Error;
    type Variant = Reader<'a>;
    fn variant_seed<V: DeserializeSeed<'de>>(self, seed: V) -> Result<(V::Value, Reader<'a>), Error> {
        let name: StrDeserializer<'_, Error> = self.name.into_deserializer();
        Ok((seed.deserialize(name)?, self.reader))
    }
}

impl<'de> VariantAccess<'de> for Reader<'_> {
    type Error = Error;
    fn unit_variant(self) -> Result<(), Error> {
        Ok(())
    }
    fn newtype_variant_seed<T: DeserializeSeed<'de>>(mut self, seed: T) -> Result<T::Value, Error> {
        self.next(seed)
    }
    fn tuple_variant<V: Visitor<'de>>(self, len: usize, visitor: V) -> Result<V::Value, Error> {
        self.deserialize_tuple(len, visitor)
    }
    fn struct_variant<V: Visitor<'de>>(
        mut self,
        names: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        self.fields(names, visitor)
    }
}

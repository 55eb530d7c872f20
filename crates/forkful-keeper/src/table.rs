//! The held descriptors, by place. Generic, so that tests can use numbers.

use forkful_os::keeper::{Kind, Name, PLACES_MAX};

/// See the module's documentation.
#[derive(Debug)]
pub struct Table<D> {
    /// Allocates all places at the beginning.
    places: Vec<Option<(Name, D)>>,
}

impl<D> Default for Table<D> {
    fn default() -> Self {
        Self { places: Vec::with_capacity(PLACES_MAX) }
    }
}

impl<D> Table<D> {
    /// Puts a descriptor into a place and replaces the previous one; closes it if there is no such place.
    pub fn keep(&mut self, place: u32, name: Name, descriptor: D) {
        let place = place as usize;
        if place >= PLACES_MAX {
            return;
        }
        while self.places.len() <= place {
            self.places.push(None);
        }
        self.places[place] = Some((name, descriptor));
    }

    /// Closes the descriptor in a place.
    pub fn drop(&mut self, place: u32) {
        if let Some(place) = self.places.get_mut(place as usize) {
            *place = None;
        }
        while self.places.last().is_some_and(Option::is_none) {
            self.places.pop();
        }
    }

    /// Closes everything but the descriptors of this kind.
    pub fn close_all_but(&mut self, kind: Kind) {
        for place in &mut self.places {
            if place.as_ref().is_some_and(|(name, _)| name.kind != kind) {
                *place = None;
            }
        }
    }

    /// The first descriptor from this place on, with its place.
    pub fn from(&self, place: u32) -> Option<(u32, Name, &D)> {
        let rest = self.places.iter().enumerate().skip(place as usize);
        let mut held = rest.filter_map(|(at, held)| Some((at as u32, held.as_ref()?)));
        held.next().map(|(at, (name, descriptor))| (at, *name, descriptor))
    }

    /// The descriptor in a place.
    pub fn at(&self, place: u32) -> Option<(Name, &D)> {
        let (name, descriptor) = self.places.get(place as usize)?.as_ref()?;
        Some((*name, descriptor))
    }

    /// All held descriptors.
    pub fn all(&self) -> impl Iterator<Item = (Name, &D)> {
        self.places.iter().flatten().map(|(name, descriptor)| (*name, descriptor))
    }

    /// The first descriptor of a kind.
    pub fn of_kind(&self, kind: Kind) -> Option<&D> {
        self.all().find(|(name, _)| name.kind == kind).map(|(_, descriptor)| descriptor)
    }
}

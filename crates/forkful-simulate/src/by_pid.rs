//! Values of processes. Numbers of processes are small and rise, so that a value is found by its place.

use std::ops::Index;

use crate::machine::Pid;

/// See the module's documentation.
#[derive(Debug)]
pub(crate) struct ByPid<T>(Vec<Option<T>>);

impl<T> Default for ByPid<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<T> ByPid<T> {
    pub(crate) fn get(&self, pid: Pid) -> Option<&T> {
        self.0.get(place(pid))?.as_ref()
    }

    pub(crate) fn get_mut(&mut self, pid: Pid) -> Option<&mut T> {
        self.0.get_mut(place(pid))?.as_mut()
    }

    pub(crate) fn contains_key(&self, pid: Pid) -> bool {
        self.get(pid).is_some()
    }

    pub(crate) fn insert(&mut self, pid: Pid, value: T) {
        let place = place(pid);
        if place >= self.0.len() {
            self.0.resize_with(place + 1, || None);
        }
        self.0[place] = Some(value);
    }

    pub(crate) fn remove(&mut self, pid: Pid) -> Option<T> {
        self.0.get_mut(place(pid))?.take()
    }

    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }

    pub(crate) fn retain(&mut self, mut stays: impl FnMut(&T) -> bool) {
        for value in &mut self.0 {
            value.take_if(|value| !stays(value));
        }
    }

    /// In the order of their numbers.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (Pid, &T)> {
        let numbered = self.0.iter().enumerate();
        numbered.filter_map(|(place, value)| Some((Pid(place as u64), value.as_ref()?)))
    }

    pub(crate) fn values(&self) -> impl Iterator<Item = &T> {
        self.0.iter().flatten()
    }

    pub(crate) fn values_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.0.iter_mut().flatten()
    }
}

impl<T> Index<&Pid> for ByPid<T> {
    type Output = T;

    fn index(&self, pid: &Pid) -> &T {
        self.get(*pid).expect("a process that is there")
    }
}

fn place(pid: Pid) -> usize {
    pid.0 as usize
}

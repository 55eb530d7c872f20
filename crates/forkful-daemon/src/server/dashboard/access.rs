//! Links and sessions of the dashboard. A link has a token, which a page exchanges once for a session; a session is two
//! secrets, of which each request needs both:
//! - a cookie that scripts cannot read. Browsers send cookies to all ports of a host, so another server of this machine
//!   may come to see it.
//! - a text that the page keeps for its own origin and sends in a header. Another origin can neither read nor send it.

use std::fmt;
use std::time::Duration;

use subtle::{Choice, ConstantTimeEq as _};
use tokio::time::Instant;

use super::reports::Reports;

/// For how long a link works: a person copies it, perhaps to another machine with a tunnel.
pub(super) const LINK_LIFE: Duration = Duration::from_secs(10 * 60);
/// Links that have not been used; the oldest makes way.
const LINKS_MAX: usize = 16;
/// Sessions; the one that was not used for longest makes way.
const SESSIONS_MAX: usize = 16;
/// A session that is not used for so long is over.
const SESSION_LIFE: Duration = Duration::from_secs(12 * 60 * 60);

/// Random bytes. They are shown nowhere but where they are given out.
#[derive(Clone)]
pub(super) struct Secret(String);

impl Secret {
    pub(super) fn new(bytes: [u8; 32]) -> Self {
        Self(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
    }

    /// For its owner.
    pub(super) fn text(&self) -> &str {
        &self.0
    }

    /// How long this takes tells at most how long the secret is.
    fn is(&self, text: &str) -> Choice {
        self.0.as_bytes().ct_eq(text.as_bytes())
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret")
    }
}

/// What the sessions of a link may do.
#[derive(Debug, Clone, Default)]
pub(super) struct Grant {
    /// Act.
    pub(super) control: bool,
    /// Read these.
    pub(super) reports: Option<Reports>,
}

#[derive(Debug)]
struct Link {
    token: Secret,
    grant: Grant,
    ends: Instant,
}

#[derive(Debug, Clone)]
pub(super) struct Session {
    pub(super) cookie: Secret,
    /// What the page sends in a header.
    pub(super) proof: Secret,
    pub(super) grant: Grant,
    used: Instant,
}

#[derive(Debug, Default)]
pub(super) struct Access {
    links: Vec<Link>,
    sessions: Vec<Session>,
}

impl Access {
    /// A new link with this token.
    pub(super) fn add_link(&mut self, token: Secret, grant: Grant, now: Instant) {
        self.links.retain(|link| link.ends > now);
        if self.links.len() >= LINKS_MAX {
            self.links.remove(0);
        }
        self.links.push(Link { token, grant, ends: now + LINK_LIFE });
    }

    /// Takes a token for a session. It is not valid afterwards.
    pub(super) fn redeem(
        &mut self,
        token: &str,
        (cookie, proof): (Secret, Secret),
        now: Instant,
    ) -> Option<Session> {
        self.links.retain(|link| link.ends > now);
        // All are compared, so that the time does not tell which one it is.
        let is_it: Vec<bool> = self.links.iter().map(|link| link.token.is(token).into()).collect();
        let link = self.links.remove(is_it.iter().position(|is_it| *is_it)?);
        let session = Session { cookie, proof, grant: link.grant, used: now };
        if self.sessions.len() >= SESSIONS_MAX {
            let oldest = self.sessions.iter().enumerate().min_by_key(|(_, session)| session.used);
            if let Some(oldest) = oldest.map(|(place, _)| place) {
                self.sessions.remove(oldest);
            }
        }
        self.sessions.push(session.clone());
        Some(session)
    }

    /// What the session may do whose secrets these are.
    pub(super) fn admit(&mut self, cookie: &str, proof: &str, now: Instant) -> Option<Grant> {
        self.sessions.retain(|session| session.used + SESSION_LIFE > now);
        let mut grant = None;
        for session in &mut self.sessions {
            if bool::from(session.cookie.is(cookie) & session.proof.is(proof)) {
                session.used = now;
                grant = Some(session.grant.clone());
            }
        }
        grant
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secret(number: u8) -> Secret {
        Secret::new([number; 32])
    }

    fn control(control: bool) -> Grant {
        Grant { control, reports: None }
    }

    fn pair(number: u8) -> (Secret, Secret) {
        (secret(number), secret(number + 100))
    }

    #[test]
    fn a_token_works_once_and_not_too_late() {
        let (mut access, now) = (Access::default(), Instant::now());
        access.add_link(secret(1), control(true), now);
        access.add_link(secret(2), control(false), now);
        assert!(access.redeem("", pair(10), now).is_none());
        assert!(access.redeem(secret(3).text(), pair(10), now).is_none());
        assert!(access.redeem(secret(1).text(), pair(10), now).unwrap().grant.control);
        assert!(access.redeem(secret(1).text(), pair(11), now).is_none(), "it was used");
        assert!(access.redeem(secret(2).text(), pair(11), now + LINK_LIFE).is_none(), "it is too old");
    }

    #[test]
    fn a_session_needs_both_of_its_secrets() {
        let (mut access, now) = (Access::default(), Instant::now());
        for (number, may_act) in [(1, true), (2, false)] {
            access.add_link(secret(number), control(may_act), now);
            assert!(access.redeem(secret(number).text(), pair(number), now).is_some());
        }
        let text = |number: u8| secret(number).text().to_owned();
        let mut admit = |cookie: &str, proof: &str, now| {
            access.admit(cookie, proof, now).map(|Grant { control, .. }| control)
        };
        assert_eq!(admit(&text(1), &text(101), now), Some(true));
        assert_eq!(admit(&text(2), &text(102), now), Some(false));
        for (cookie, proof) in [(1, 102), (2, 101), (101, 1), (1, 1), (3, 103)] {
            assert_eq!(admit(&text(cookie), &text(proof), now), None, "{cookie} {proof}");
        }
        assert_eq!(admit("", "", now), None);
        assert_eq!(admit(&text(1), &text(101)[..63], now), None);
        assert_eq!(admit(&text(1), &text(101), now + SESSION_LIFE), None, "it is over");
    }

    #[test]
    fn links_and_sessions_are_bounded() {
        let (mut access, now) = (Access::default(), Instant::now());
        for number in 0..2 * LINKS_MAX as u8 {
            access.add_link(secret(number), control(false), now);
        }
        assert_eq!(access.links.len(), LINKS_MAX);
        assert!(access.redeem(secret(0).text(), pair(0), now).is_none(), "the oldest made way");
        for number in 0..2 * SESSIONS_MAX as u8 {
            let now = now + Duration::from_secs(number.into());
            access.add_link(secret(number), control(false), now);
            assert!(access.redeem(secret(number).text(), pair(number), now).is_some());
        }
        assert_eq!(access.sessions.len(), SESSIONS_MAX);
    }

    #[test]
    fn a_secret_is_not_shown() {
        let mut access = Access::default();
        access.add_link(secret(0xab), control(false), Instant::now());
        assert!(!format!("{access:?}").contains("abab"));
    }
}

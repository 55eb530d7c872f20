//! Dates without a calendar library: days since 1970 to year, month and day, in universal time.

use std::time::{Duration, SystemTime};

/// Year, month and day of a day since 1970-01-01, by the proleptic Gregorian calendar.
pub fn civil(days_since_1970: u64) -> (u64, u64, u64) {
    // Eras of 400 years that begin on March 1, so that the leap day is a year's last.
    let days = days_since_1970 + 719_468;
    let era = days / 146_097;
    let day_of_era = days % 146_097;
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    (year_of_era + era * 400 + u64::from(month <= 2), month, day)
}

/// ISO 8601 with milliseconds: `2026-11-21T16:08:34.481Z`.
pub fn iso(time: SystemTime) -> String {
    let since = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or(Duration::ZERO);
    let (days, seconds) = (since.as_secs() / 86_400, since.as_secs() % 86_400);
    let (year, month, day) = civil(days);
    let (hour, minute, second) = (seconds / 3_600, seconds / 60 % 60, seconds % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{:03}Z", since.subsec_millis())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_become_dates() {
        assert_eq!(civil(0), (1970, 1, 1));
        assert_eq!(civil(11_016), (2000, 2, 29));
        assert_eq!(civil(11_017), (2000, 3, 1));
        assert_eq!(civil(20_778), (2026, 11, 21));
    }

    #[test]
    fn times_are_iso_8601() {
        let time = SystemTime::UNIX_EPOCH + Duration::from_millis(1_795_277_255_042);
        assert_eq!(iso(time), "2026-11-21T16:07:35.042Z");
    }
}

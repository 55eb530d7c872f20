//! Formats compared with the output of Moment.js, and arbitrary text at any time.

use proptest::prelude::*;

use super::*;

/// 2026-02-03T04:05:06.789Z, a Tuesday.
const TUESDAY: u64 = 1_770_091_506_789;

fn format(form: &str, at_ms: u64, offset_s: i32) -> String {
    DateFormat::new(form).unwrap().format(at_ms, offset_s)
}

#[test]
fn every_token_means_what_it_means_to_moment() {
    for (form, expected) in [
        ("YYYY-MM-DD HH:mm:ss.SSS Z", "2026-02-03 04:05:06.789 +00:00"),
        ("YYYY-MM-DDTHH:mm:ss", "2026-02-03T04:05:06"),
        ("YY Y YYYYY YYYYYY", "26 2026 02026 +002026"),
        ("Q Qo M Mo MM MMM MMMM", "1 1st 2 2nd 02 Feb February"),
        ("D Do DD DDD DDDo DDDD", "3 3rd 03 34 34th 034"),
        ("d do dd ddd dddd e E", "2 2nd Tu Tue Tuesday 2 2"),
        ("w wo ww gg gggg", "6 6th 06 26 2026"),
        ("W Wo WW GG GGGG", "6 6th 06 26 2026"),
        ("A a H HH h hh k kk", "AM am 4 04 4 04 4 04"),
        ("m mm s ss", "5 05 6 06"),
        ("S SS SSS SSSS SSSSSSSSS", "7 78 789 7890 789000000"),
        ("X x z ZZ", "1770091506 1770091506789 UTC +0000"),
        ("LT|LTS|L|LL", "4:05 AM|4:05:06 AM|02/03/2026|February 3, 2026"),
        ("LLL|LLLL", "February 3, 2026 4:05 AM|Tuesday, February 3, 2026 4:05 AM"),
        ("l|ll", "2/3/2026|Feb 3, 2026"),
        ("lll|llll", "Feb 3, 2026 4:05 AM|Tue, Feb 3, 2026 4:05 AM"),
        ("[Today is] dddd [YYYY", "Today is Tuesday [2026"),
        ("[a]] [] YYYY", "a]  2026"),
        (r"\Y \YYYY \\", "Y YYYY "),
        ("– 日本 YYYY", "– 日本 2026"),
    ] {
        assert_eq!(format(form, TUESDAY, 0), expected, "{form}");
    }
}

#[test]
fn local_time_is_shifted_and_its_offset_shown() {
    assert_eq!(format("YYYY-MM-DD HH:mm Z z", TUESDAY, 5 * 3600 + 1800), "2026-02-03 09:35 +05:30 ");
    assert_eq!(format("YYYY-MM-DD hh:mm A ZZ", TUESDAY, -8 * 3600), "2026-02-02 08:05 PM -0800");
    assert_eq!(format("h k A", 0, 0), "12 24 AM");
    assert_eq!(format("YYYY-MM-DD", 0, -3600), "1969-12-31");
}

#[test]
fn weeks_belong_to_the_year_that_holds_their_deciding_day() {
    for (at_s, iso, locale) in [
        // 2027-01-01, a Friday; 2024-12-30, a Monday; 2023-01-01, a Sunday; 2020-12-31, a Thursday.
        (1_798_761_600, "2026-53", "2027-1"),
        (1_735_516_800, "2025-1", "2025-1"),
        (1_672_531_200, "2022-52", "2023-1"),
        (1_609_372_800, "2020-53", "2021-1"),
    ] {
        assert_eq!(format("GGGG-W", at_s * 1000, 0), iso);
        assert_eq!(format("gggg-w", at_s * 1000, 0), locale);
    }
}

#[test]
fn what_would_break_a_line_is_refused() {
    assert_eq!(DateFormat::new(""), Err(DateFormatFault::Empty));
    assert_eq!(DateFormat::new("YYYY\n"), Err(DateFormatFault::Control('\n')));
    assert_eq!(DateFormat::new("Y".repeat(257)), Err(DateFormatFault::TooLong));
}

#[test]
fn iso_dates_around_leap_days_and_centuries() {
    for (at_ms, expected) in [
        (0, "1970-01-01T00:00:00.000Z"),
        (951_782_399_999, "2000-02-28T23:59:59.999Z"),
        (951_782_400_000, "2000-02-29T00:00:00.000Z"),
        (951_868_800_000, "2000-03-01T00:00:00.000Z"),
        (1_709_164_800_001, "2024-02-29T00:00:00.001Z"),
        (1_767_225_599_999, "2025-12-31T23:59:59.999Z"),
        (4_107_542_400_000, "2100-03-01T00:00:00.000Z"),
    ] {
        assert_eq!(iso_8601(at_ms), expected);
    }
}

proptest! {
    #[test]
    fn any_form_at_any_time_gives_one_line_of_bounded_length(form in any::<String>(), at_ms in any::<u64>(), offset_s in -86_400..86_400) {
        if let Ok(form) = DateFormat::new(form) {
            let text = form.format(at_ms, offset_s);
            prop_assert!(!text.contains(['\n', '\r']));
            // `LLLL` is the token with the longest output relative to its length.
            prop_assert!(text.len() <= DATE_FORMAT_BYTES_MAX * 32);
        }
    }

    #[test]
    fn tokens_between_texts_keep_their_meaning(before in "[^\\[\\]\\\\\\pC]{0,5}", at_ms in 0_u64..4_102_444_800_000) {
        let text = format(&format!("[{before}]YYYY[{before}]"), at_ms, 0);
        let year = format("YYYY", at_ms, 0);
        prop_assert_eq!(text, format!("{before}{year}{before}"));
    }
}

//! With more than two arms: which arm answers most, and by how much it leads each other arm. Pure.

use super::judge::{ratio, throughput_logs};
use super::words::{interval, times};
use super::{Block, Setup};
use crate::document::{ArmDocument, BestDocument, LeadDocument};
use crate::plan::Plan;
use crate::statistics::verdict::{Rule, Word, judge};

/// `None` with two arms, where the only comparison already says it.
pub(super) fn best(
    setup: &Setup,
    plan: &Plan,
    blocks: &[Block],
    arms: &[ArmDocument],
) -> Option<BestDocument> {
    if setup.self_test || arms.len() < 3 {
        return None;
    }
    let rate = |index: &usize| arms[*index].throughput.per_second;
    let best = (0..arms.len()).max_by(|a, b| rate(a).total_cmp(&rate(b)))?;
    // Several intervals at once, and the best is selected by the measurement: each interval needs a higher
    // confidence.
    let rule = Rule::throughput(plan.looks.len() * (arms.len() - 1));
    let lead = |other: usize| {
        let logs = throughput_logs(blocks, other, best);
        LeadDocument {
            over: arms[other].name.clone(),
            throughput: ratio(&logs, &rule),
            verdict: judge(&logs, &rule, true).word,
        }
    };
    let leads: Vec<LeadDocument> = (0..arms.len()).filter(|other| *other != best).map(lead).collect();
    let sentence = sentence(&arms[best].name, &leads);
    Some(BestDocument { arm: arms[best].name.clone(), leads, sentence })
}

fn sentence(best: &str, leads: &[LeadDocument]) -> String {
    let distance = |(place, lead): (usize, &LeadDocument)| {
        let Some(ratio) = lead.throughput.ratio else {
            return format!("nothing in common with {}", lead.over);
        };
        let figure = format!("{} ×{}", times(ratio), interval(lead.throughput.ci95));
        let what = if place == 0 { " as many requests per second" } else { "" };
        let word =
            if lead.verdict == Word::Faster { String::new() } else { format!(": {}", lead.verdict.as_str()) };
        format!("{figure}{what} as {}{word}", lead.over)
    };
    let distances: Vec<String> = leads.iter().enumerate().map(distance).collect();
    let unclear: Vec<&str> =
        leads.iter().filter(|lead| lead.verdict != Word::Faster).map(|lead| lead.over.as_str()).collect();
    let what = if unclear.is_empty() {
        format!("{best} is the best")
    } else {
        format!("{best} answers most, but is not clearly ahead of {}", unclear.join(" and "))
    };
    format!("{what}: {}", distances.join("; "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::Ratio;

    fn lead(over: &str, ratio: f64, verdict: Word) -> LeadDocument {
        let ci95 = Some([ratio - 0.1, ratio + 0.1]);
        let throughput = Ratio { ratio: Some(ratio), ci95, ..Ratio::default() };
        LeadDocument { over: over.to_owned(), throughput, verdict }
    }

    #[test]
    fn the_best_is_told_with_its_distance_to_each_of_the_others() {
        let clear = [lead("single", 1.9, Word::Faster), lead("node-cluster", 1.5, Word::Faster)];
        assert_eq!(
            sentence("cluster", &clear),
            "cluster is the best: 1.90 × (95 %: 1.80 to 2.00) as many requests per second as single; \
             1.50 × (95 %: 1.40 to 1.60) as node-cluster"
        );
        let unclear = [
            lead("single", 1.9, Word::Faster),
            lead("pm2", 1.01, Word::NoDifference),
            lead("node-cluster", 1.05, Word::Inconclusive),
        ];
        assert_eq!(
            sentence("cluster", &unclear),
            "cluster answers most, but is not clearly ahead of pm2 and node-cluster: 1.90 × (95 %: 1.80 to 2.00) as many \
             requests per second as single; 1.01 × (95 %: 0.91 to 1.11) as pm2: no difference; 1.05 × (95 %: 0.95 to 1.15) as \
             node-cluster: inconclusive"
        );
    }
}

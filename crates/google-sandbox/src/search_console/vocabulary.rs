//! The pages that rank and the queries they rank for.

use crate::events::{EventLog, mix};

/// The host that the Analytics property measures.
pub(crate) const SHOP: &str = "https://www.nordwind.example";
/// A host of the same domain without Analytics.
pub(crate) const HELP: &str = "https://help.nordwind.example";

/// Pages of the help host, with addresses as Google stores them: percent-encoded.
const HELP_PATHS: [&str; 5] =
    ["/", "/returns", "/colours/aqua%2C-magenta", "/aufbau/f%C3%B6hr-%F0%9F%AA%91", "/video/assembly"];

/// A page that only Google's job search links to.
const JOBS_PATH: &str = "/jobs?utm_campaign=google_jobs_apply&utm_source=google_jobs_apply&utm_medium=organic";

/// A page of the site.
pub(crate) struct RankingPage {
    /// [`SHOP`] or [`HELP`].
    pub(crate) origin: &'static str,
    /// Path and query, percent-encoded.
    pub(crate) path: String,
    pub(crate) group: &'static str,
    /// Queries it is the first page for.
    pub(crate) queries: Vec<u32>,
}

/// A search query.
pub(crate) struct RankingQuery {
    pub(crate) text: String,
    /// The page that ranks best.
    pub(crate) page: u16,
    /// A second page that shows for the same query, at times above the first.
    pub(crate) second: Option<u16>,
    /// Names the shop: ranks first, is clicked often, and shows links to several pages.
    pub(crate) brand: bool,
    /// The usual position.
    pub(crate) position: u16,
}

/// All pages and queries.
pub(crate) struct Vocabulary {
    pub(crate) pages: Vec<RankingPage>,
    pub(crate) queries: Vec<RankingQuery>,
    /// Queries that nobody clicks.
    pub(crate) tail: Vec<u32>,
    /// The first page of the help host.
    pub(crate) help: u16,
    pub(crate) jobs: u16,
}

impl Vocabulary {
    /// The pages of the event log come first, with the same numbers as there.
    pub(crate) fn new(seed: u64, log: &EventLog) -> Self {
        let page =
            |origin, path: &str, group| RankingPage { origin, path: path.to_owned(), group, queries: Vec::new() };
        let mut pages: Vec<RankingPage> = log.pages.iter().map(|p| page(SHOP, &p.path, p.group)).collect();
        let help = number(pages.len());
        pages.extend(HELP_PATHS.iter().map(|path| page(HELP, path, "Help")));
        let jobs = number(pages.len());
        pages.push(page(SHOP, JOBS_PATH, "Jobs"));
        let mut vocabulary = Self { pages, queries: Vec::new(), tail: Vec::new(), help, jobs };
        for index in 0..vocabulary.pages.len() {
            let title = log.pages.get(index).map_or("", |p| p.title.as_str());
            for text in texts(&vocabulary.pages[index], title) {
                vocabulary.add(seed, text, number(index), 45);
            }
        }
        vocabulary.add_tail(seed);
        vocabulary
    }

    /// Adds a query of a page, unless another page has it already: then both rank for it.
    fn add(&mut self, seed: u64, text: String, page: u16, spread: u64) -> u32 {
        if let Some(id) = self.queries.iter().position(|query| query.text == text) {
            let id = u32::try_from(id).unwrap_or(u32::MAX);
            self.pages[usize::from(page)].queries.push(id);
            return id;
        }
        let brand = text.contains("nordwind") || text.contains("nord wind");
        let luck = mix(seed ^ 0x5EA2, text.bytes().fold(0, |sum, byte| mix(sum, u64::from(byte))));
        // The square favours the top of the list.
        let unit = (luck % 1_000) as f64 / 1_000.0;
        let position = if brand { 1 } else { 2 + (unit * unit * spread as f64) as u16 };
        let second = (brand || luck.is_multiple_of(5)).then(|| self.other_page(page, luck)).flatten();
        let id = u32::try_from(self.queries.len()).unwrap_or(u32::MAX);
        self.queries.push(RankingQuery { text, page, second, brand, position });
        self.pages[usize::from(page)].queries.push(id);
        id
    }

    /// Another page of the same host.
    fn other_page(&self, page: u16, luck: u64) -> Option<u16> {
        let origin = self.pages[usize::from(page)].origin;
        let others: Vec<usize> = (0..self.pages.len())
            .filter(|index| *index != usize::from(page) && self.pages[*index].origin == origin)
            .filter(|index| matches!(self.pages[*index].group, "Category" | "Home" | "Help"))
            .collect();
        let index = others.get(usize::try_from(luck / 7).unwrap_or(0) % others.len().max(1))?;
        Some(number(*index))
    }

    fn add_tail(&mut self, seed: u64) {
        let words = ["oak", "walnut", "cheap", "scandinavian", "small", "round", "vintage", "white", "garden", "used"];
        let things = ["chair", "table", "lamp", "shelf"];
        let ends =
            ["", " berlin", " near me", " ideas", " for children", " repair", " 1960", " delivery", " dimensions"];
        let targets: Vec<usize> =
            (0..self.pages.len()).filter(|i| matches!(self.pages[*i].group, "Category" | "Blog")).collect();
        // A visitor comes with a query that was there before.
        let clicked = self.queries.len();
        for word in words {
            for thing in things {
                for end in ends {
                    let text = format!("{word} {thing}{end}");
                    let luck = mix(seed, text.bytes().fold(9, |sum, byte| mix(sum, u64::from(byte))));
                    let target = targets[usize::try_from(luck).unwrap_or(0) % targets.len()];
                    let id = self.add(seed, text, number(target), 120);
                    self.queries[id as usize].position += 8;
                    self.tail.push(id);
                }
            }
        }
        for page in &mut self.pages {
            page.queries.retain(|query| (*query as usize) < clicked);
        }
    }
}

fn number(index: usize) -> u16 {
    u16::try_from(index).unwrap_or(u16::MAX)
}

/// The queries of a page, most frequent first.
fn texts(page: &RankingPage, title: &str) -> Vec<String> {
    let name = title.split(" | ").next().unwrap_or_default().to_lowercase();
    let some = |list: &[&str]| list.iter().map(|text| (*text).to_owned()).collect();
    match page.group {
        "Home" => some(&[
            "nordwind",
            "nordwind chairs",
            "nordwind möbel",
            "nord wind shop",
            "nordwind furniture",
            "chairs that last",
        ]),
        "Product" => {
            let turned = name.split_once(' ').map_or_else(String::new, |(kind, model)| format!("{model} {kind}"));
            vec![
                turned.clone(),
                format!("nordwind {name}"),
                format!("{name} price"),
                format!("{turned} review"),
                format!("\"{name}\", oak"),
                format!("is the {turned} worth it"),
                format!("{turned} 椅子"),
                format!("{turned} used"),
            ]
        }
        "Blog" => {
            let slug = page.path.rsplit('/').next().unwrap_or_default().replace('-', " ");
            vec![
                slug.clone(),
                format!("how to {slug}"),
                format!("{slug} oil"),
                format!("{slug} at home"),
                format!("{slug} nordwind"),
                format!("best {slug}"),
            ]
        }
        "Category" => vec![
            name.clone(),
            format!("buy {name}"),
            format!("wooden {name}"),
            format!("{name} online"),
            format!("{name} nordwind"),
        ],
        "Plans" => some(&["nordwind prices", "furniture subscription", "furniture plans"]),
        "Help" => {
            some(&["nordwind returns", "assembly instructions chair", "aufbauanleitung föhr", "aqua, magenta fabric"])
        }
        "Jobs" => some(&["carpenter jobs", "nordwind jobs"]),
        _ => {
            let slug = page.path.trim_matches('/').to_owned();
            vec![format!("nordwind {slug}"), format!("{slug} furniture shop")]
        }
    }
}

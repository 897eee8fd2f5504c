//! What a question may combine. Google refuses some combinations with a message that says little, and answers others with an
//! empty table, so every one of them is refused here, with what to change.

use acp_core::{Error, Result};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::filters::{Filter, FilterDimension};

/// What rows are grouped by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) enum Dimension {
    Query,
    Page,
    Country,
    Device,
    Date,
    Hour,
    SearchAppearance,
}

impl Dimension {
    /// Its name, in requests and as a column.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Query => "query",
            Self::Page => "page",
            Self::Country => "country",
            Self::Device => "device",
            Self::Date => "date",
            Self::Hour => "hour",
            Self::SearchAppearance => "searchAppearance",
        }
    }
}

impl From<&FilterDimension> for Dimension {
    fn from(dimension: &FilterDimension) -> Self {
        match dimension {
            FilterDimension::Query => Self::Query,
            FilterDimension::Page => Self::Page,
            FilterDimension::Country => Self::Country,
            FilterDimension::Device => Self::Device,
            FilterDimension::SearchAppearance => Self::SearchAppearance,
        }
    }
}

/// Where results were shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) enum SearchType {
    #[default]
    Web,
    Image,
    Video,
    News,
    Discover,
    GoogleNews,
}

impl SearchType {
    /// Its name, in requests and for people.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Web => "web",
            Self::Image => "image",
            Self::Video => "video",
            Self::News => "news",
            Self::Discover => "discover",
            Self::GoogleNews => "googleNews",
        }
    }

    /// Feeds have no queries and no positions.
    pub(crate) fn is_feed(self) -> bool {
        matches!(self, Self::Discover | Self::GoogleNews)
    }
}

/// How impressions are counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) enum Aggregation {
    #[default]
    Auto,
    ByProperty,
    ByPage,
    ByNewsShowcasePanel,
}

/// Which days count: those that are final, fresh ones too, or fresh hours.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum DataState {
    #[default]
    Final,
    All,
    HourlyAll,
}

impl DataState {
    /// Its name in requests.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Final => "final",
            Self::All => "all",
            Self::HourlyAll => "hourly_all",
        }
    }
}

/// What a question combines, whatever its dates.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Combination<'a> {
    pub(crate) dimensions: &'a [Dimension],
    pub(crate) filters: &'a [Filter],
    pub(crate) search_type: SearchType,
    pub(crate) aggregation: Aggregation,
    pub(crate) data_state: DataState,
}

impl Combination<'_> {
    /// Refuses what Google refuses, or answers wrongly.
    pub(crate) fn check(&self) -> Result<()> {
        match self.problem() {
            Some(problem) => Err(Error::invalid_arguments(problem)),
            None => Ok(()),
        }
    }

    /// The first thing that is wrong, and what to change.
    pub(crate) fn problem(&self) -> Option<String> {
        self.problems().into_iter().next()
    }

    /// Everything that is wrong, each with what to change.
    pub(crate) fn problems(&self) -> Vec<String> {
        [self.dimension_problem(), self.type_problem(), self.aggregation_problem()].into_iter().flatten().collect()
    }

    fn dimension_problem(&self) -> Option<String> {
        use Dimension::{Date, Hour, SearchAppearance};
        let dimensions = self.dimensions;
        let twice = dimensions.iter().enumerate().find(|(place, name)| dimensions[..*place].contains(name));
        if let Some((_, twice)) = twice {
            return Some(format!("dimensions has {} twice. Name each dimension once.", twice.name()));
        }
        if self.groups(SearchAppearance) && dimensions.len() > 1 {
            return Some(
                "searchAppearance can't be combined with another dimension. Ask for searchAppearance alone, then ask for the \
                 other dimensions with a filter searchAppearance equals one of its values."
                    .to_owned(),
            );
        }
        if self.groups(Date) && self.groups(Hour) {
            return Some(
                "date and hour can't be combined. Use hour alone: its values hold the day as well.".to_owned(),
            );
        }
        match (self.groups(Hour), self.data_state) {
            (true, DataState::Final | DataState::All) => Some(
                "hour needs data_state hourly_all. Leave data_state out, or group by date instead of hour.".to_owned(),
            ),
            (false, DataState::HourlyAll) => Some(
                "data_state hourly_all needs the dimension hour. Add hour, or use data_state all for fresh days."
                    .to_owned(),
            ),
            _ => None,
        }
    }

    fn type_problem(&self) -> Option<String> {
        if !self.search_type.is_feed() {
            return None;
        }
        let name = self.search_type.name();
        if self.groups(Dimension::Query) || self.filters_on(FilterDimension::Query) {
            return Some(format!(
                "{name} is a feed that nobody searches, so it has no queries. Use page, country or date, or another search_type."
            ));
        }
        if self.search_type == SearchType::Discover && self.groups(Dimension::Device) {
            return Some("discover can't be grouped by device. Leave device out.".to_owned());
        }
        None
    }

    fn aggregation_problem(&self) -> Option<String> {
        let page = self.groups(Dimension::Page) || self.filters_on(FilterDimension::Page);
        match self.aggregation {
            Aggregation::ByProperty if page => Some(
                "aggregation byProperty can't be used with the dimension page or a filter on page. Leave aggregation out: with \
                 pages, impressions are counted by page."
                    .to_owned(),
            ),
            Aggregation::ByProperty if self.search_type.is_feed() => Some(format!(
                "aggregation byProperty does not exist for {}. Leave aggregation out.",
                self.search_type.name()
            )),
            Aggregation::ByNewsShowcasePanel if !self.search_type.is_feed() => Some(
                "aggregation byNewsShowcasePanel exists for search_type discover and googleNews only. Leave aggregation out."
                    .to_owned(),
            ),
            Aggregation::ByNewsShowcasePanel if page => Some(
                "aggregation byNewsShowcasePanel can't be used with the dimension page or a filter on page. Leave page out."
                    .to_owned(),
            ),
            Aggregation::ByNewsShowcasePanel if !self.filters.iter().any(Filter::is_news_showcase) => Some(
                "aggregation byNewsShowcasePanel needs the filter searchAppearance equals NEWS_SHOWCASE. Add it, or leave \
                 aggregation out."
                    .to_owned(),
            ),
            _ => None,
        }
    }

    /// How Google will count: what `auto` comes to.
    pub(crate) fn counted(&self) -> Aggregation {
        use Dimension::{Page, SearchAppearance};
        let by_page = self.groups(Page)
            || self.groups(SearchAppearance)
            || self.filters_on(FilterDimension::Page)
            || self.filters_on(FilterDimension::SearchAppearance)
            || self.search_type.is_feed();
        match self.aggregation {
            Aggregation::Auto if by_page => Aggregation::ByPage,
            Aggregation::Auto => Aggregation::ByProperty,
            explicit => explicit,
        }
    }

    fn groups(&self, dimension: Dimension) -> bool {
        self.dimensions.contains(&dimension)
    }

    fn filters_on(&self, dimension: FilterDimension) -> bool {
        self.filters.iter().any(|filter| filter.dimension == dimension)
    }
}

impl Aggregation {
    /// Its name in requests and answers.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::ByProperty => "byProperty",
            Self::ByPage => "byPage",
            Self::ByNewsShowcasePanel => "byNewsShowcasePanel",
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn problem(question: &Value) -> Option<String> {
        #[derive(Default, Deserialize)]
        #[serde(default)]
        struct Question {
            dimensions: Vec<Dimension>,
            filters: Vec<Filter>,
            #[serde(rename = "type")]
            search_type: SearchType,
            aggregation: Aggregation,
            state: DataState,
        }
        let question: Question = serde_json::from_value(question.clone()).unwrap();
        Combination {
            dimensions: &question.dimensions,
            filters: &question.filters,
            search_type: question.search_type,
            aggregation: question.aggregation,
            data_state: question.state,
        }
        .problem()
    }

    #[test]
    fn every_combination_that_google_refuses_is_refused_with_the_fix() {
        let showcase = json!([{"dimension": "searchAppearance", "expression": "NEWS_SHOWCASE"}]);
        let page = json!([{"dimension": "page", "operator": "contains", "expression": "/a"}]);
        let query = json!([{"dimension": "query", "operator": "contains", "expression": "a"}]);
        for (question, fix) in [
            (json!({"dimensions": ["query", "page", "query"]}), "once"),
            (json!({"dimensions": ["searchAppearance", "date"]}), "alone"),
            (json!({"dimensions": ["date", "hour"], "state": "hourly_all"}), "hour alone"),
            (json!({"dimensions": ["hour"]}), "data_state hourly_all"),
            (json!({"dimensions": ["hour"], "state": "all"}), "data_state hourly_all"),
            (json!({"dimensions": ["date"], "state": "hourly_all"}), "Add hour"),
            (json!({"dimensions": ["query"], "type": "discover"}), "no queries"),
            (json!({"dimensions": ["query"], "type": "googleNews"}), "no queries"),
            (json!({"filters": query, "type": "discover"}), "no queries"),
            (json!({"dimensions": ["device"], "type": "discover"}), "device"),
            (json!({"dimensions": ["page"], "aggregation": "byProperty"}), "Leave aggregation out"),
            (json!({"filters": page, "aggregation": "byProperty"}), "Leave aggregation out"),
            (json!({"type": "discover", "aggregation": "byProperty"}), "Leave aggregation out"),
            (json!({"type": "googleNews", "aggregation": "byProperty"}), "Leave aggregation out"),
            (
                json!({"type": "web", "filters": showcase, "aggregation": "byNewsShowcasePanel"}),
                "discover and googleNews",
            ),
            (json!({"type": "discover", "aggregation": "byNewsShowcasePanel"}), "NEWS_SHOWCASE"),
            (
                json!({"type": "discover", "filters": showcase, "dimensions": ["page"], "aggregation": "byNewsShowcasePanel"}),
                "page out",
            ),
        ] {
            let problem = problem(&question).unwrap_or_else(|| panic!("{question} was let through"));
            assert!(problem.contains(fix), "{question}: {problem}");
        }
    }

    #[test]
    fn what_google_takes_is_let_through() {
        let showcase = json!([{"dimension": "searchAppearance", "expression": "NEWS_SHOWCASE"}]);
        for question in [
            json!({}),
            json!({"dimensions": ["date", "query", "page", "country", "device"]}),
            json!({"dimensions": ["searchAppearance"]}),
            json!({"dimensions": ["hour", "query", "device", "page", "country"], "state": "hourly_all"}),
            json!({"dimensions": ["page", "country", "date"], "type": "discover"}),
            json!({"dimensions": ["device"], "type": "googleNews"}),
            json!({"dimensions": ["query"], "aggregation": "byPage"}),
            json!({"type": "googleNews", "filters": showcase, "aggregation": "byNewsShowcasePanel"}),
        ] {
            assert_eq!(problem(&question), None, "{question}");
        }
    }
}

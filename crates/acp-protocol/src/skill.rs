//! `SKILL.md`: procedures that travel with a connector (13.4).

use serde::Deserialize;

/// A skill: when it applies, and the steps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Skill {
    /// Name, equal to that of its folder.
    pub name: String,
    /// When it applies.
    pub description: String,
    /// Path of an icon, relative to the skill's folder.
    pub icon: Option<String>,
    /// The steps, in Markdown.
    pub body: String,
}

#[derive(Deserialize)]
struct Frontmatter {
    name: String,
    description: String,
    #[serde(default)]
    icon: Option<String>,
}

/// Why a `SKILL.md` can't be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SkillError(String);

impl std::fmt::Display for SkillError {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "SKILL.md: {}", self.0)
    }
}

impl std::error::Error for SkillError {}

impl Skill {
    /// Reads a `SKILL.md` that lies in the folder `folder`: Markdown behind a YAML frontmatter with `name`, which must
    /// equal the folder's name, and `description`. An icon that breaks its rule is left out, the skill stays valid.
    pub fn read(folder: &str, text: &str) -> Result<Self, SkillError> {
        if !is_skill_name(folder) {
            return Err(SkillError(format!(
                "the folder name {folder:?} must be lowercase words joined by single hyphens"
            )));
        }
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        let (yaml, body) = split_frontmatter(text)
            .ok_or_else(|| SkillError("it must start with a YAML frontmatter between two lines of ---".to_owned()))?;
        let front: Frontmatter = serde_saphyr::from_str(yaml)
            .map_err(|error| SkillError(format!("the frontmatter can't be read: {error}")))?;
        if front.name != folder {
            return Err(SkillError(format!("name {:?} differs from the folder name {folder:?}", front.name)));
        }
        if front.description.trim().is_empty() || front.description.chars().count() > 1024 {
            return Err(SkillError("description must have 1 to 1,024 characters".to_owned()));
        }
        let icon = front.icon.filter(|path| crate::manifest::is_icon_path(path));
        Ok(Self { name: front.name, description: front.description, icon, body: body.to_owned() })
    }
}

/// Whether a skill name has the form `^[a-z0-9]+(?:-[a-z0-9]+)*$` (13.4) and at most 64 characters.
pub fn is_skill_name(name: &str) -> bool {
    name.len() <= 64
        && name
            .split('-')
            .all(|word| !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit()))
}

/// The YAML between the first two lines of `---`, and what follows.
fn split_frontmatter(text: &str) -> Option<(&str, &str)> {
    let after =
        text.strip_prefix("---").and_then(|rest| rest.strip_prefix("\r\n").or_else(|| rest.strip_prefix('\n')))?;
    let mut place = 0;
    for line in after.split_inclusive('\n') {
        if line.trim_end() == "---" {
            return Some((&after[..place], &after[place + line.len()..]));
        }
        place += line.len();
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_skill_has_name_description_and_body() {
        for newline in ["\n", "\r\n"] {
            let text =
                ["---", "name: ga4-reporting", "description: \"When: always\"", "icon: icon.gif", "---", "Steps"]
                    .join(newline);
            let skill = Skill::read("ga4-reporting", &text).unwrap();
            assert_eq!((skill.description.as_str(), skill.body.as_str(), skill.icon), ("When: always", "Steps", None));
        }
    }

    #[test]
    fn what_breaks_a_rule_is_refused_with_the_reason() {
        for (folder, text, needle) in [
            ("a", "name: a", "frontmatter"),
            ("a", "---\nname: a\ndescription: d\n", "frontmatter"),
            ("a", "---\nname: b\ndescription: d\n---\n", "differs"),
            ("a", "---\nname: a\n---\n", "description"),
            ("a", "---\nname: a\ndescription: ''\n---\n", "description"),
            ("a", "---\n: [\n---\n", "read"),
            ("A b", "", "hyphens"),
        ] {
            let error = Skill::read(folder, text).unwrap_err().to_string();
            assert!(error.contains(needle), "{error}");
        }
        for bad in ["", "-a", "a-", "a--b", "A", "é", &"a".repeat(65)] {
            assert!(!is_skill_name(bad), "{bad}");
        }
    }
}

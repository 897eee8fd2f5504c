//! Where connectors, sources and data are.

use std::path::{Path, PathBuf};

use acp_host::host::{Host, HostOptions};
use acp_host::launch::Environment;
use acp_host::package::{self, Listing};
use clap::Args;
use etcetera::base_strategy::{BaseStrategy, choose_native_strategy};

use crate::report::Failure;

/// Folder of a project that holds connectors (13.1): the one that the specification gives, so that every host finds them.
const OF_PROJECT: [&str; 2] = [".analytika", "acp"];
/// Variables that connectors get besides what programs need to run.
const PASSED_ON: [&str; 3] = ["ACP_LOG", "ACP_AUDIT_LOG", "ACP_GOOGLE_SANDBOX"];

/// Flags of every command.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct Folders {
    /// Folder with the connectors in `acps` and the sources in `sources.json` [default: `acp` in the data folder of the
    /// user, with the connectors in `servers`]
    #[arg(long, global = true, value_name = "FOLDER")]
    root: Option<PathBuf>,
    /// File of the sources [default: `sources.json` in the root]
    #[arg(long, global = true, value_name = "FILE")]
    sources: Option<PathBuf>,
    /// Project, in whose `acp-data` extractions are stored [default: the current folder]. The connectors of a project that is
    /// named are used too, and before others of the same id
    #[arg(long, global = true, value_name = "FOLDER")]
    project: Option<PathBuf>,
}

impl Folders {
    /// These folders, with a project where none was named.
    pub(crate) fn or_project(mut self, project: Option<PathBuf>) -> Self {
        self.project = self.project.or(project);
        self
    }

    /// The flags that were given besides the project, with absolute paths, for a command that is to find the same.
    pub(crate) fn named(&self) -> Result<Vec<(&'static str, PathBuf)>, Failure> {
        let flags = [("--root", &self.root), ("--sources", &self.sources)];
        let named = flags.into_iter().filter_map(|(flag, path)| Some((flag, path.as_ref()?)));
        named.map(|(flag, path)| Ok((flag, absolute(path)?))).collect()
    }

    /// Folder of the connectors of all projects.
    pub(crate) fn system(&self) -> Result<PathBuf, Failure> {
        match &self.root {
            Some(root) => Ok(absolute(root)?.join("acps")),
            None => Ok(data()?.join("servers")),
        }
    }

    /// The file of the sources.
    pub(crate) fn sources(&self) -> Result<PathBuf, Failure> {
        match (&self.sources, &self.root) {
            (Some(file), _) => absolute(file),
            (None, Some(root)) => Ok(absolute(root)?.join("sources.json")),
            (None, None) => Ok(data()?.join("sources.json")),
        }
    }

    /// The project: the one that was named, or the current folder.
    pub(crate) fn project(&self) -> Result<PathBuf, Failure> {
        let project = absolute(self.project.as_deref().unwrap_or(Path::new(".")))?;
        if !project.is_dir() {
            return Err(Failure::usage(format!("the project {} is no folder", project.display())));
        }
        Ok(project)
    }

    /// Folder of the connectors of the project, if one was named: a folder that somebody is in by chance must not start
    /// programs.
    pub(crate) fn project_packages(&self) -> Result<Option<PathBuf>, Failure> {
        match &self.project {
            Some(_) => Ok(Some(OF_PROJECT.iter().fold(self.project()?, |path, part| path.join(part)))),
            None => Ok(None),
        }
    }

    /// The connectors that can be used.
    pub(crate) fn packages(&self) -> Result<Listing, Failure> {
        Ok(package::available(&self.system()?, self.project_packages()?.as_deref())?)
    }

    /// Where connectors are installed: in the project that was named, or for all of them.
    pub(crate) fn destination(&self) -> Result<PathBuf, Failure> {
        match self.project_packages()? {
            Some(project) => Ok(project),
            None => self.system(),
        }
    }

    /// Folder for caches and temporary tables.
    pub(crate) fn state() -> Result<PathBuf, Failure> {
        let none = || Failure::usage("there is no folder for caches: set HOME (or LOCALAPPDATA on Windows)");
        Ok(choose_native_strategy().map_err(|_| none())?.cache_dir().join("acp"))
    }

    /// Variables for connectors.
    pub(crate) fn variables() -> Vec<(String, String)> {
        PASSED_ON.iter().filter_map(|name| Some(((*name).to_owned(), std::env::var(name).ok()?))).collect()
    }

    /// A host of these folders. `name` begins the ids of its sessions; `query_hint` says how all rows of a dataset are asked
    /// for.
    pub(crate) fn host(&self, name: &str, query_hint: &str) -> Result<Host, Failure> {
        let options = HostOptions {
            system: self.system()?,
            project_packages: self.project_packages()?,
            sources: self.sources()?,
            project: self.project()?,
            state: Self::state()?,
            name: name.to_owned(),
            environment: Environment::Essential,
            variables: Self::variables(),
            query_hint: Some(query_hint.to_owned()),
        };
        Ok(Host::new(options)?)
    }
}

fn data() -> Result<PathBuf, Failure> {
    let none = || Failure::usage("there is no data folder: set HOME (or APPDATA on Windows), or pass --root");
    Ok(choose_native_strategy().map_err(|_| none())?.data_dir().join("acp"))
}

fn absolute(path: &Path) -> Result<PathBuf, Failure> {
    std::path::absolute(path).map_err(|error| Failure::usage(format!("{}: {error}", path.display())))
}

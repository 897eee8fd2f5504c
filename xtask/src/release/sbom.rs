//! What a package is made of, as CycloneDX has it.

use cyclonedx_bom::external_models::spdx::SpdxExpression;
use cyclonedx_bom::external_models::uri::Purl;
use cyclonedx_bom::models::bom::Bom;
use cyclonedx_bom::models::component::{Classification, Component, Components};
use cyclonedx_bom::models::license::{LicenseChoice, Licenses};
use cyclonedx_bom::models::metadata::Metadata;

use super::dependencies::Crate;
use crate::Result;
use crate::workspace::about;

/// The list for a package. It says nothing of when and where it was made, so the same sources give the same bytes.
pub(super) fn bytes(package: &str, version: &str, crates: &[Crate]) -> Result<Vec<u8>> {
    let whole = component(Classification::Application, package, version, Some("MIT OR Apache-2.0"))?;
    let parts = crates.iter().map(|one| {
        let mut part = component(Classification::Library, &one.name, &one.version, one.license.as_deref())?;
        part.purl = Some(Purl::new("cargo", &one.name, &one.version)?);
        Ok(part)
    });
    let bom = Bom {
        serial_number: None,
        metadata: Some(Metadata { component: Some(whole), ..Metadata::default() }),
        components: Some(Components(parts.collect::<Result<_>>()?)),
        ..Bom::default()
    };
    let mut bytes = Vec::new();
    bom.output_as_json_v1_5(&mut bytes)?;
    bytes.push(b'\n');
    Ok(bytes)
}

fn component(kind: Classification, name: &str, version: &str, licence: Option<&str>) -> Result<Component> {
    let mut component = Component::new(kind, name, version, Some(format!("{name}@{version}")));
    if let Some(licence) = licence {
        // Old crates write a slash for "or", which is taken as such.
        let expression = SpdxExpression::parse_lax(licence.to_owned()).map_err(about(name))?;
        component.licenses = Some(Licenses(vec![LicenseChoice::Expression(expression)]));
    }
    Ok(component)
}

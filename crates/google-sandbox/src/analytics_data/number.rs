//! Numbers as Google prints them: 15 significant digits if they read back as the same double, else 17.

/// Prints a number like C's `%.15g`, or `%.17g` where 15 digits aren't enough.
pub(crate) fn format(value: f64) -> String {
    let short = general(value, 15);
    match short.parse::<f64>() {
        Ok(read) if read == value => short,
        _ => general(value, 17),
    }
}

fn general(value: f64, digits: usize) -> String {
    if value == 0.0 || !value.is_finite() {
        return "0".to_owned();
    }
    let scientific = format!("{:.*e}", digits - 1, value);
    let Some((mantissa, exponent)) = scientific.split_once('e') else {
        return scientific;
    };
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let precision = i32::try_from(digits).unwrap_or(17);
    if (-4..precision).contains(&exponent) {
        let decimals = usize::try_from(precision - 1 - exponent).unwrap_or(0);
        return trim(&format!("{value:.decimals$}")).to_owned();
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{}e{sign}{:02}", trim(mantissa), exponent.abs())
}

fn trim(text: &str) -> &str {
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { text }
}

#[cfg(test)]
mod tests {
    use super::format;

    #[test]
    fn like_c() {
        for (value, text) in [
            (0.0, "0"),
            (344.0, "344"),
            (1.220_930_232_558_139_5, "1.2209302325581395"),
            (0.1, "0.1"),
            (0.1 + 0.2, "0.30000000000000004"),
            (1e15, "1e+15"),
            (123_456_789_012_345.0, "123456789012345"),
            (0.000_01, "1e-05"),
            (-12.5, "-12.5"),
        ] {
            assert_eq!(format(value), text);
        }
    }

    #[test]
    fn reads_back() {
        let mut x = 1.0_f64;
        for n in 1..2_000 {
            x = (x * 1.7 + f64::from(n)) % 100_000.0;
            assert_eq!(format(x).parse::<f64>().unwrap(), x);
        }
    }
}

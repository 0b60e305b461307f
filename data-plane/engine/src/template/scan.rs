//! Where a `{{` ends. One scan from left to right; text that is scanned in vain is not scanned again.

/// What a scan from behind a `{{` finds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Close {
    /// The offset of its `}}`.
    At(usize),
    /// Another `{{` begins here first: the earlier one was text.
    Reopened(usize),
    /// The text ends.
    Never,
}

/// Looks for the `}}` of a template whose inside begins at `open`. Braces in quotes do not count. `nests`: whether
/// templates may stand inside, as they may in an expression.
pub(crate) fn closing(text: &str, open: usize, nests: bool) -> Close {
    let bytes = text.as_bytes();
    let mut quote = None;
    let mut inner = 0_usize;
    let mut at = open;
    while let Some(&byte) = bytes.get(at) {
        let doubled = bytes.get(at + 1) == Some(&byte);
        match (quote, byte) {
            (Some(open), byte) if byte == open => quote = None,
            (Some(_), _) => {}
            (None, b'"' | b'\'' | b'`') => quote = Some(byte),
            (None, b'{') if doubled && !nests => return Close::Reopened(at),
            (None, b'{') if doubled => {
                inner += 1;
                at += 1;
            }
            (None, b'}') if doubled && inner == 0 => return Close::At(at),
            (None, b'}') if doubled => {
                inner -= 1;
                at += 1;
            }
            (None, _) => {}
        }
        at += 1;
    }
    Close::Never
}

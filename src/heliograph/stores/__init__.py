"""Where knowledge is kept: contracts, and back ends found by URL scheme."""

"""From text to stored knowledge: chunking, extraction, merging, commit, and the pipeline that runs them."""

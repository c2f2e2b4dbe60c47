"""Which gates suit a project: one ecosystem a file, each with `propose`, which reads files and runs nothing."""

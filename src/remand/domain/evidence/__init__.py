"""Evidence of rejections: probes that can be run again, and whether what was run supports an attempt."""

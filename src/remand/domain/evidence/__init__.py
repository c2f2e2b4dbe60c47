"""Evidence of rejections: probes that can be rerun, and whether recorded runs support an attempt."""

"""The pages that people decide on: what each reads, how it is shown, and the forms by which they act."""

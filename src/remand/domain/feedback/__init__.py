"""What reviewers say, from hostile text to the section an agent reads: cleaned, weighed, compared, laid out."""

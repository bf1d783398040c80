"""What takes long: all wrong answers on another machine, all packs recorded anew."""

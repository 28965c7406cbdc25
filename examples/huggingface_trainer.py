"""MARVEL with Hugging Face's Trainer: a small BERT tells topics apart, where 30 % of the given topics are wrong.

python examples/huggingface_trainer.py [FOLDER]
"""

import sys
import tempfile

import datasets
import numpy as np
import torch
from transformers import BertConfig, BertForSequenceClassification, TrainingArguments

from marvel import Marvel, noise, save_run
from marvel.integrations.huggingface import MarvelTrainer

EPOCHS, N = 15, 600
TOPICS = ["sport", "music", "food"]


def main(folder: str) -> None:
    torch.set_num_threads(1)
    torch.manual_seed(0)
    rng = np.random.default_rng(0)
    topic = rng.integers(0, 3, N)
    # Sentences of 12 words: half of the topic's own 40, half of 80 that all topics share.
    own, common = 1 + 40 * topic[:, None] + rng.integers(0, 40, (N, 6)), rng.integers(121, 201, (N, 6))
    corruption = noise.corrupt(topic, "symmetric", rng, classes=3, rate=0.3)
    words = np.concatenate([own, common], axis=1)
    train = datasets.Dataset.from_dict({"input_ids": words, "label": corruption.labels})

    # A new model of random weights; one of from_pretrained(...) is used in the same way.
    sizes = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64}
    model = BertForSequenceClassification(BertConfig(vocab_size=201, num_labels=3, **sizes))
    criterion = Marvel(n=N, classes=3, epochs=EPOCHS)
    how = {"learning_rate": 2e-3, "lr_scheduler_type": "constant", "per_device_train_batch_size": 32}
    quiet = {"save_strategy": "no", "report_to": "none", "disable_tqdm": True, "use_cpu": True}
    with tempfile.TemporaryDirectory() as place:
        arguments = TrainingArguments(place, num_train_epochs=EPOCHS, **how, **quiet)
        MarvelTrainer(model, arguments, train_dataset=train, criterion=criterion).train()

    saved = save_run(folder, criterion, train, classes=TOPICS, replace=True)
    removed, wrong = criterion.removed, torch.from_numpy(corruption.wrong)
    print(f"{int((removed & wrong).sum())} of {int(removed.sum())} removed labels are wrong; the most suspect:")
    for issue in saved.issues[:5]:
        print(f"  {issue.id}: given {issue.given}, suggested {issue.suggested}")
    print(f"The report is {saved.report}. Next: marvel review {folder}")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "runs/huggingface-trainer")
